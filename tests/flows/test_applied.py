"""`ablate embed` and `ablate predict`: a stopped command goes on, and what cannot be written is refused."""

from pathlib import Path

import numpy as np
import pytest

from contrastive.errors import UserError
from flows import applied
from flows.applied import embed, in_parts, predict, texts_of


def test_a_stopped_command_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(applied, "PART", 2)
    done, texts, out = list[list[str]](), ["a", "bb", "c", "dd", "e"], tmp_path / "v.npy"

    def lengths(part: list[str]) -> np.ndarray:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(part)
        return np.array([[len(text)] for text in part])

    with pytest.raises(KeyboardInterrupt):
        in_parts(texts, lengths, out, "model")
    found = in_parts(texts, lambda part: np.array([[9]] if part == ["e"] else [[0], [0]]), out, "model")
    assert done == [["a", "bb"], ["c", "dd"]] and found[:, 0].tolist() == [1, 2, 1, 2, 9]
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_read_or_written_is_refused(tmp_path: Path):
    table = tmp_path / "t.csv"
    table.write_text("name,text\nx,a long text\ny,\n")
    assert texts_of(table, "")[0]["text"].tolist() == ["a long text", ""]
    with pytest.raises(UserError, match="did you mean `text`"):
        texts_of(table, "txt")
    with pytest.raises(UserError, match="v.csv: name a file .npy"):
        embed("m", table, tmp_path / "v.csv", "")
    with pytest.raises(UserError, match="p.npy: name a file .csv"):
        predict("m", table, tmp_path / "p.npy", "")
    with pytest.raises(UserError, match="t.csv exists: name a new file"):
        predict("m", table, table, "")
    with pytest.raises(UserError, match="is no exported encoder: `ablate export CELL"):
        embed(str(tmp_path), table, tmp_path / "v.npy", "")
