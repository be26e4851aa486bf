"""What a plan says of data and devices before anything is trained, and which numbers of texts are refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from contrastive.data import tokens
from contrastive.errors import UserError
from contrastive.grid import plan as plans
from contrastive.grid.load import parse_experiment
from contrastive.grid.preflight import PreflightReport, preflight
from contrastive.runs import store
from flows import cli
from flows.forecast import preflight_report
from tests.contrastive.grid.examples import mistakes

FILE = """\
name: small
data: {source: "file:DATA", train: 40, test: TEST, max_length: 8}
encoder: {model: "scratch:bert", scratch: {layers: 1, hidden: 8, heads: 2, vocabulary: 64}}
seeds: [0]
sections:
  - {title: T, AXES}
evaluation: {metrics: [accuracy, svm, kmeans]}
"""


def rows(path: Path, classes: str) -> str:
    lines = [f"text {path.stem} number {number},{name}" for number, name in enumerate(classes)]
    path.write_text("\n".join(["text,label", *lines]) + "\n", encoding="utf-8")
    return str(path)


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """An experiment file on 60 texts of two classes, and on a test file of such classes."""
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")

    def made(test: str = "", axes: str = "rows: {ce: {}}", more: str = "") -> str:
        own = rows(tmp_path / "test.csv", test) if test else "20"
        data = rows(tmp_path / "data.csv", "ab" * 30)
        return FILE.replace("DATA", data).replace("TEST", f'"{own}"' if test else own).replace("AXES", axes) + more

    return made


def told(text: str, **asked: Any) -> PreflightReport:
    return preflight_report(plans.make_plan(parse_experiment(text)), **asked)


def test_sound_data_says_nothing_and_what_cannot_be_measured_is_told(text):
    assert told(text()) == PreflightReport([], [])
    assert told(text("a" * 9)).warnings == ["test has 9 texts, all of one class: svm, kmeans will be left out"]
    (line,) = told(text("aaaaaaabbb")).warnings
    said = "the smallest class of test has 3 texts, and evaluation.folds is 5: svm will be left out"
    assert line.startswith(said)


def test_what_was_prepared_is_not_read_again(text, tmp_path):
    plan = plans.make_plan(parse_experiment(text("aaaaaaabbb")))
    (cell,) = plan.statuses
    folder = tmp_path / "home" / "cache" / "tokens" / tokens.token_key(cell.data, cell.encoder)
    folder.mkdir(parents=True)
    store.write_json(folder / "meta.json", {"class_counts": {"test": {"a": 4, "b": 0}}})
    store.mark_finished(folder, "DONE")
    (line,) = preflight(plan, on_gpu=False).warnings
    assert line == "test has 4 texts, all of one class: svm, kmeans will be left out"


def test_data_that_cannot_be_divided_is_an_error_and_all_are_told_at_once(text):
    found = told(text(axes="rows: {ce: {precision: fp16, train: 4000}}"))
    assert len(found.errors) == 2
    assert "Lower data.train" in found.errors[0] and found.errors[1].startswith("training.precision is fp16")
    with pytest.raises(UserError, match=r"(?s)Lower data.train.*\n.*fp16"):
        found.refuse()


def test_grades_that_are_no_numbers_are_told_whichever_row_reads_them(text):
    axes = "base: {positive: text, view: pair}, rows: {CoSENT: {loss: cosent}, SimCSE: {loss: simcse}}"
    (line,) = told(text(axes=axes)).errors
    assert line == "cosent reads labels as grades of pairs, such as 0 to 5, but they are a, b"


def test_where_some_data_can_be_used_the_rest_is_a_warning(text):
    found = told(text(axes="rows: {a: {train: 40}, b: {train: 4000}}").replace("seeds: [0]", "seeds: [0, 1]"))
    assert found.errors == []
    (line,) = found.warnings
    assert line.startswith("data train=4000: ") and line.endswith("(the cells with this data will fail)")


def test_rows_of_one_seed_are_told_before_they_run(text):
    compared = text(axes="rows: {a: {epochs: 1}, b: {epochs: 2}}")
    (line,) = told(compared).warnings
    assert line.startswith("each row has one seed")
    assert told(compared.replace("seeds: [0]", "seeds: [0, 1]")) == PreflightReport([], [])


def test_a_share_of_a_gpu_that_is_not_there(text):
    refused = "--gpus-per-cell is 1, but this machine has no GPU: leave it out or set it to 0"
    assert told(text(), gpus_per_cell=1.0).errors == [refused]
    assert told(text(), gpus_per_cell=0.0) == PreflightReport([], [])
    half = "resources: {gpus_per_cell: 0.5}\n"
    warned = "resources.gpus_per_cell is 0.5, but this machine has no GPU: cells train on the CPU"
    assert told(text(more=half)).warnings == [warned]
    fp16 = text(axes="rows: {ce: {precision: fp16}}", more=half)
    assert told(fp16, engine="ray") == PreflightReport([], [])  # on a cluster, whose devices nobody knows here


def test_the_command_prints_warnings_and_refuses_errors(text, tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(text("a" * 9), encoding="utf-8")
    done = CliRunner().invoke(cli.app, ["plan", str(path)])
    assert done.exit_code == 0 and "warning: test has 9 texts, all of one class" in done.output
    path.write_text(text("a" * 9, "rows: {ce: {precision: fp16}}"), encoding="utf-8")
    done = CliRunner().invoke(cli.app, ["plan", str(path), "--json"])
    assert isinstance(done.exception, UserError)
    found = json.loads(done.stdout)
    assert len(found["warnings"]) == len(found["errors"]) == 1
    for asked in (["run", str(path)], ["run", str(path), "--gpus-per-cell", "1"]):
        assert "fp16" in str(CliRunner().invoke(cli.app, asked).exception)
    assert not list((tmp_path / "home").glob("runs/*"))


DRAWN = """\
name: texts
data: {source: "file:DATA", DIVIDED}
encoder: {model: "scratch:bert", scratch: {layers: 1, hidden: 8, heads: 2, vocabulary: 64}}
seeds: [0, 1]
sections:
  - {title: T, base: {loss: ce}, AXES}
  - {title: U, base: {loss: ce}, rows: {a: {batch_size: 8}, b: {batch_size: 16}}}
evaluation: {metrics: [accuracy], MEASURED}
"""


def drawn(
    divided: str, axes: str = "rows: {a: {epochs: 1}, b: {epochs: 2}}", measured: str = "folds: 5", data: str = "d.csv"
) -> str:
    made = DRAWN
    for name, value in {"DATA": data, "DIVIDED": divided, "AXES": axes, "MEASURED": measured}.items():
        made = made.replace(name, value)
    return made


TESTS = "rows: {a: {test: 9}, b: {test: 99}}"
BOTH, NINE = "rows: {a: {resample: true}, b: {resample: false}}", "train: 9, test: 9"
REFUSED = [
    ({"divided": "test: 9, resample: true"}, 2, "data.resample: data.resample draws data.train"),
    ({"divided": "test: 9", "axes": BOTH}, 6, "data.train is left out"),
    ({"divided": "train: 9, test: t.csv", "measured": "test: 9"}, 8, "data.test is `t.csv`, and all"),
    ({"divided": "test: 9", "measured": "test: 9"}, 8, "data.train is left out, so training uses all"),
    ({"divided": NINE, "measured": "test: 8"}, 8, "8 is less than data.test (9): give at"),
    ({"divided": f"{NINE}, resample: true", "measured": "test: 9"}, 8, "set data.test to this number"),
    (
        {"divided": NINE, "axes": TESTS, "measured": "test: 50"},
        8,
        "50 is less than data.test (99)",
    ),
    ({"divided": NINE, "measured": "test: 0"}, 8, "evaluation.test: should be greater than or equal to 1, got 0"),
]


@pytest.mark.parametrize(("given", "line", "message"), REFUSED)
def test_what_cannot_be_is_refused_with_its_line_and_once(given: dict[str, str], line: int, message: str):
    ((where, said),) = mistakes(drawn(**given))
    assert where == line and message in said


def test_what_can_be_is_taken():
    of_each_size = drawn("test: 9, resample: true", "rows: {a: {train: 20}, b: {train: 40}}")
    of_each_size = of_each_size.replace(
        "base: {loss: ce}, rows: {a: {batch", "base: {loss: ce, train: 9}, rows: {a: {batch"
    )
    for sound in (drawn(f"{NINE}, resample: true"), of_each_size, drawn(NINE, BOTH), drawn(NINE, measured="test: 30")):
        assert len(parse_experiment(sound).cells) >= 4, sound


ALL_ANEW = "test: 20, train: 40, resample: true"
TOO_MANY = r"evaluation.test is 31, but only 30 texts .* Lower evaluation.test to"
DIVIDED = [
    (ALL_ANEW, "folds: 5", "draws 40 training texts with each seed, but only 40 are"),
    (ALL_ANEW.replace("40", "39"), "folds: 5", None),
    ("test: 20, train: 30", "test: 31", TOO_MANY),
    ("test: 20, train: 30", "test: 30", None),
]


@pytest.mark.parametrize(("divided", "measured", "message"), DIVIDED)
def test_too_few_texts_are_foreseen_and_enough_are_too(tmp_path, monkeypatch, divided, measured, message):
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path / "home"))
    data = rows(tmp_path / "data.csv", "ab" * 30)
    plan = plans.make_plan(parse_experiment(drawn(divided, measured=measured, data=data)))
    found = preflight(plan, on_gpu=False)
    assert (found.errors == []) == (message is None)
    if message:
        with pytest.raises(UserError, match=message):
            found.refuse()
