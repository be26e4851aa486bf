"""Experiment files that are damaged, enormous or none: refused in a short line, in time in proportion to the file."""

from pathlib import Path

import pytest

from contrastive.errors import brief
from contrastive.grid.load import ExperimentError, load_experiment
from tests.contrastive.grid.examples import GOOD, HEAD, ONE, mistakes


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"# nothing yet\n",
            "x.yaml:1: expected settings (name: value) for name, data, encoder and sections, got nothing",
        ),
        (b"just text", 'encoder and sections, got "just text"'),
        (b"name: x\ndescription: caf\xe9\n", "x.yaml, line 2: 0xe9 is not UTF-8; save the file as UTF-8"),
        (GOOD.encode("utf-16"), "x.yaml, line 1: 0xff is not UTF-8"),
    ],
)
def test_files_that_are_no_experiment(tmp_path, monkeypatch, content, message):
    monkeypatch.chdir(tmp_path)
    Path("x.yaml").write_bytes(content)
    with pytest.raises(ExperimentError) as caught:
        load_experiment("x.yaml")
    assert message in str(caught.value)


FIVE = ("k", "alpha", "temperature", "queue", "chunk")
NAMES_OF_FIVE = " ".join(f"{{{name}}}" for name in FIVE)
AXES_OF_100 = "".join(f"          {name}: {list(range(1, 101))}\n" for name in FIVE)


def test_a_grid_that_is_too_large_is_counted_not_made():
    axes = f"{{temperature: {list(range(1, 400))}, alpha: {list(range(400))}}}"
    two_axes = f"  - {{title: T, rows: {{'{{temperature}} {{alpha}}': {{axes: {axes}}}}}}}\n"
    said = "sections: 478800 cells before `exclude`; the limit is 100000. "
    said += "This section has the most: give fewer values, or raise resources.most_cells"
    assert mistakes(HEAD + two_axes) == [(5, said)]
    large = f"  - title: T\n    rows:\n      '{NAMES_OF_FIVE}':\n        axes:\n{AXES_OF_100}"
    ((line, message),) = mistakes(HEAD + "  - {title: Small, rows: {ce: {}}}\n" + large)
    assert line == 6
    assert message.startswith("sections: 30000000003 cells")


ENDLESS = {"one name": "a" * 1_000_001, "brackets": "[" * 100_000, "a remark": "# " + "x" * 1_000_000}


@pytest.mark.parametrize("text", ENDLESS.values(), ids=ENDLESS)
def test_a_file_that_is_no_experiment_is_not_read_to_its_end(text, tmp_path):
    ((line, message),) = mistakes(text)
    assert line == 1 and ("an experiment file has at most" in message or "nested too deeply" in message)
    (tmp_path / "x.yaml").write_text(text * 9, encoding="utf-8")
    with pytest.raises(ExperimentError, match="an experiment file has at most|nested too deeply"):
        load_experiment(tmp_path / "x.yaml")


LONG_NAMES = {
    "setting": ONE + "LONG: 1\n",
    "row": HEAD + "  - {title: T, rows: {LONG: {}, '{LONG}': {}}, baseline: LONGER}\n",
    "old section": HEAD + "  - {title: T, axes: {LONG: [LONG]}}\n",
    "table": HEAD + "  - {title: T, rows: {ce: {}}, show: {table: {rows: LONG, columns: LONG, values: [LONG]}}}\n",
    "DeepSpeed's file": GOOD.replace("epochs: 2", 'sharding: "deepspeed:LONG.json"'),
    "a name that commands a terminal": ONE + '"\\e[31m\\n": 1\n',
}


@pytest.mark.parametrize("what", LONG_NAMES)
def test_a_message_is_one_short_printable_line_whatever_the_names(what):
    most = 600 if what == "DeepSpeed's file" else 500  # that is named as it was given, and by its whole path
    for length in (5000, 500_000):
        for _, message in mistakes(LONG_NAMES[what].replace("LONG", "x" * length)):
            assert len(message) <= 1010 and brief(message, 2000) == message
            assert message.count("x") < most, message
