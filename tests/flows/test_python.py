"""Experiments from Python are those of a file; docs/guide/experiment.ipynb runs one."""

from pathlib import Path

import pytest
import yaml

import ablate
from contrastive.errors import UserError

FILE = """
name: small
data: {source: "file:texts.csv", train: 40, test: 20}
encoder: {model: "scratch:bert"}
sections: [{title: T, rows: {ce: {loss: ce}, rdrop: {loss: rdrop}}}]
"""


def test_settings_are_the_cells_of_a_file_and_mistakes_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path / "home"))
    (tmp_path / "texts.csv").write_text("text,label\n" + "".join(f"text {n},{n % 2}\n" for n in range(90)))
    (tmp_path / "small.yaml").write_text(FILE)
    from_file, from_settings = ablate.load("small.yaml"), ablate.load(yaml.safe_load(FILE))
    assert from_file.plan()["id"].tolist() == from_settings.plan()["id"].tolist() and len(from_file.plan()) == 6
    assert set(from_file.plan()["action"]) == {"run"}
    with pytest.raises(UserError, match="has no figure forest; run the experiment first"):
        from_file.figure()
    with pytest.raises(UserError, match="did you mean `sections`"):
        ablate.load(yaml.safe_load(FILE.replace("sections", "section")))
