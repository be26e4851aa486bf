"""The notebooks print what they show. `python -m tests.ablate.test_notebook` writes their outputs again."""

import contextlib
import io
import json
import os
import tempfile
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "guide"


def run_cells(notebook: dict) -> list[list[str]]:
    """Run the code cells in one namespace; return the lines that each prints."""
    names: dict[str, object] = {"__name__": "__main__"}
    outputs = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec("".join(cell["source"]), names)
            outputs.append(printed.getvalue().splitlines(keepends=True))
    return outputs


def shown(notebook: dict) -> list[list[str]]:
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [[line for output in cell["outputs"] for line in output["text"]] for cell in code]


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("tables.ipynb", "report/index.html"),
        pytest.param("experiment.ipynb", "reports/output/small/index.html", marks=pytest.mark.full),
    ],
)
def test_a_notebook_prints_what_it_shows(name: str, written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ABLATE_HOME", raising=False)
    notebook = json.loads((GUIDE / name).read_text(encoding="utf-8"))
    assert run_cells(notebook) == shown(notebook)
    assert (tmp_path / written).exists()


def main() -> None:
    for path in GUIDE.glob("*.ipynb"):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            outputs = iter(run_cells(notebook))
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                lines = next(outputs)
                stream = {"name": "stdout", "output_type": "stream", "text": lines}
                cell["outputs"] = [stream] if lines else []
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
