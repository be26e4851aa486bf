"""Numbers of texts that leave nothing to draw, or nothing to measure on, are refused before anything trains."""

from pathlib import Path

import pytest

from contrastive.cells import plan as plans
from contrastive.cells.grid import Resolved
from contrastive.experiment.foreseen import foresee
from contrastive.experiment.load import parse_experiment
from tests.contrastive.experiment.examples import mistakes

FILE = """\
name: texts
data: {source: "file:DATA", DIVIDED}
encoder: {model: "scratch:bert", scratch: {layers: 1, hidden: 8, heads: 2, vocabulary: 64}}
seeds: [0, 1]
sections:
  - {title: T, base: {loss: ce}, AXES}
  - {title: U, base: {loss: ce}, axes: {batch_size: [8, 16]}}
evaluation: {metrics: [accuracy], MEASURED}
"""


def text(divided: str, axes: str = "axes: {epochs: [1, 2]}", measured: str = "folds: 5", data: str = "d.csv") -> str:
    made = FILE
    for name, value in {"DATA": data, "DIVIDED": divided, "AXES": axes, "MEASURED": measured}.items():
        made = made.replace(name, value)
    return made


ALL_TRAIN, ANEW = text("test: 9, resample: true"), "train: 9, test: 9, resample: true"
REFUSED = {
    "all of them train": (ALL_TRAIN, 2, "data.resample: data.resample draws data.train"),
    "all of them train in a section": (text("test: 9", "axes: {resample: [true, false]}"), 6, "data.train is left out"),
    "a test split of its own": (text("train: 9, test: t.csv", measured="test: 9"), 8, "data.test is `t.csv`, of which"),
    "no number of training texts": (text("test: 9", measured="test: 9"), 8, "data.train is left out, so that all"),
    "fewer than before": (text("train: 9, test: 9", measured="test: 8"), 8, "8 is less than data.test, 9: give that"),
    "any text may train": (text(ANEW, measured="test: 9"), 8, "give that number to data"),
    "a section may": (
        text("train: 9, test: 9", "axes: {test: [9, 99]}", "test: 50"),
        8,
        "50 is less than data.test, 99",
    ),
    "none at all": (text("train: 9, test: 9", measured="test: 0"), 8, "evaluation.test: must be at least 1, got 0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_with_its_line_and_once(case: str):
    refused, line, message = REFUSED[case]
    said = [(where, words) for where, words in mistakes(refused) if message in words]
    assert [where for where, _ in said] == [line] and len(mistakes(refused)) == 1


SOUND = {
    "drawn with each seed": text("test: 9, train: 9, resample: true"),
    "drawn of each size": text("test: 9, resample: true", "axes: {train: [20, 40]}").replace(
        "base: {loss: ce}, axes: {batch_size", "base: {loss: ce, train: 9}, axes: {batch_size"
    ),
    "drawn or not": text("test: 9, train: 9", "axes: {resample: [true, false]}"),
    "measured on more": text("test: 9, train: 9", measured="test: 30"),
}


@pytest.mark.parametrize("sound", SOUND)
def test_what_can_be_is_taken(sound: str):
    assert len(parse_experiment(SOUND[sound]).cells) >= 4


def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **said: str) -> plans.Plan:
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path / "home"))
    path = tmp_path / "d.csv"
    path.write_text("text,label\n" + "".join(f"text {i},{'ab'[i % 2]}\n" for i in range(60)), encoding="utf-8")
    resolved: Resolved = parse_experiment(text(data=str(path), **said))
    return plans.make_plan(resolved)


ALL_ANEW = "test: 20, train: 40, resample: true"


@pytest.mark.parametrize(
    ("divided", "measured", "message"),
    [
        (ALL_ANEW, "folds: 5", "draws 40 training texts anew with each seed, and 40 are"),
        (ALL_ANEW.replace("40", "39"), "folds: 5", None),
        (
            "test: 20, train: 30",
            "test: 31",
            r"evaluation.test is 31, and there are 30 texts .* Lower evaluation.test to",
        ),
        ("test: 20, train: 30", "test: 30", None),
    ],
)
def test_too_few_texts_are_foreseen_and_enough_are_too(tmp_path, monkeypatch, divided, measured, message):
    found = foresee(planned(tmp_path, monkeypatch, divided=divided, measured=measured), on_gpu=False)
    assert (found.errors == ()) == (message is None)
    if message:
        with pytest.raises(Exception, match=message):
            found.refuse()
