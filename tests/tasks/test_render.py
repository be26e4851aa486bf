"""A report that contradicts its numbers does not take the place of a sound one; one that was edited is found out."""

import dataclasses
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from reports import compare
from reports.statistics import Summary, summarise
from tasks import record, tracking
from tasks.render import ReportFailed, audit_report, build_report, report_folder
from tests.recorded import cell_folder, grid
from tests.tiers import rest_is_full


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory, empty_store: Path) -> Path:
    """A home with a sound report."""
    home = tmp_path_factory.mktemp("sound")
    shutil.copy(empty_store, home / "mlflow.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ABLATE_HOME", str(home))
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        recorded(home)
        build_report("small")
    return home


@pytest.fixture
def folder(sound: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Its report, which a test may edit; afterwards it is sound again."""
    monkeypatch.setenv("ABLATE_HOME", str(sound))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    before = content(report_folder("small"))
    yield report_folder("small")
    shutil.rmtree(report_folder("small"))
    for name, written in before.items():
        path = report_folder("small") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(written)


def recorded(home: Path, description: str = "") -> None:
    client, document = tracking.open_tracker(home), grid()
    for row, label in enumerate(("ce", "ce+supcon")):
        for seed in (0, 1):
            record.record_cell(client, "small", cell_folder(f"c{row}s{seed}", label, seed, 0.7 + 0.1 * row), [])
    document["experiment"]["description"] = description
    record.record_grid(client, "small", document)


def content(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def falsified(values: Sequence[float]) -> Summary | None:
    """Every mean a little too high."""
    summary = summarise(values)
    return None if summary is None else dataclasses.replace(summary, mean=summary.mean + 0.01)


def test_a_wrong_number_is_an_error_and_the_last_report_stays(folder: Path, monkeypatch: pytest.MonkeyPatch):
    before = content(folder.parent)
    monkeypatch.setattr(compare, "summarise", falsified)
    with pytest.raises(ReportFailed) as raised:
        build_report("small")
    assert "comparisons.csv: Recipes, ce, test.accuracy: the mean is 0.7000, not 0.7100" in str(raised.value)
    assert "MLflow and the run folders hold all results" in str(raised.value)
    assert content(folder.parent) == before


def test_what_the_author_claims_is_a_warning(home: Path, caplog: pytest.LogCaptureFixture):
    recorded(home, "SupCon is better than [all].")
    assert "SupCon is better than" in build_report("small").read_text()
    assert "The experiment file claims what no statistic says: `better`" in caplog.text
    assert audit_report("small") == []
    record.record_grid(tracking.open_tracker(home), "small", grid())  # the author has taken it back
    assert "README.md, line 5: `better` is said without a statistic" in audit_report("small")[0]


MARKUP = ("!Important: two encoders.", "#1 of three studies.", "- a list", "> said")


@pytest.mark.parametrize("description", rest_is_full(MARKUP, MARKUP[:1]))
def test_a_description_may_begin_like_markup(description: str, home: Path):
    recorded(home, description)
    build_report("small")
    assert audit_report("small") == []


EDITS = {
    "a mean": ("| ce (baseline) | **0.7000**", "| ce (baseline) | **0.7900**"),
    "a conclusion": ("tied with the best are", "far ahead are"),
    "a new line": ("\n---\n", "\nSupCon wins.\n---\n"),
    "a cell": ("- ce: c0s0, c0s1", "- ce: c0s0"),
    "a compared difference": ("| +0.1000", "| +0.2000"),
}


def edited(folder: Path, edit: tuple[str, str]) -> int:
    """Edit the report once; which line that is."""
    path = folder / "README.md"
    text = path.read_text(encoding="utf-8")
    assert edit[0] in text
    path.write_text(text.replace(*edit, 1), encoding="utf-8")
    return text[: text.index(edit[0])].count("\n") + 1 + edit[0].startswith("\n")


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_the_line_that_was_edited_is_named(edit: tuple[str, str], folder: Path):
    number = edited(folder, edit)
    named = [re.search(r"README.md, line (\d+): ", problem) for problem in audit_report("small")]
    assert {int(line[1]) for line in named if line} == {number} and all(named)


# What no number beside the report tells of: what is built again from the results does.
ELSEWHERE = {
    "a title": ("# small\n", "# large\n"),
    "a note above a table": ("\n## Recipes\n", "\n## Recipes\n\n> **Note** SupCon is recommended.\n"),
    "how many texts": ("| train | ", "| train | 9"),
}


@pytest.mark.parametrize("edit", ELSEWHERE.values(), ids=ELSEWHERE)
def test_what_was_edited_elsewhere_is_found_by_building_the_report_again(edit: tuple[str, str], folder: Path):
    edited(folder, edit)
    problems = audit_report("small")
    assert problems and all("README.md, line " in problem for problem in problems)


def test_a_sound_report_and_none_pass_an_audit_and_a_figure_that_is_gone_is_named(folder: Path):
    assert audit_report("small") == audit_report("other") == []
    (figure, *_) = sorted(folder.glob("figures/*"))
    figure.unlink()
    assert audit_report("small") == [f"{folder}/figures/{figure.name}: is not there any more"]


@pytest.mark.parametrize("name", ["README.zh.md", "results.csv", "comparisons.csv", "effects.csv"])
def test_a_file_that_is_gone_or_nonsense_is_named(name: str, folder: Path):
    (folder / name).write_text("nonsense\n1,2,3\n")
    assert audit_report("small")
    (folder / name).unlink()
    (problem,) = audit_report("small")
    assert name in problem and "cannot be read" in problem
