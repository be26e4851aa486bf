"""An audit finds whatever was edited in one, in any of its files."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from contrastive.runs.store import report_folder
from tasks import record, tracking
from tasks.report import audit_report, build_report
from tests.recorded import cell_folder, grid

MARKUP = ("!Important: two encoders.", "#1 of three studies.", "- a list", "> said")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory, empty_store: Path) -> Path:
    """A home with a sound report."""
    home = tmp_path_factory.mktemp("sound")
    shutil.copy(empty_store, home / "mlflow.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ABLATE_HOME", str(home))
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        recorded(home, MARKUP[0])
        build_report("small")
    return home


@pytest.fixture
def folder(sound: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Its report, which a test may edit; afterwards it is sound again."""
    monkeypatch.setenv("ABLATE_HOME", str(sound))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    shutil.copytree(report_folder("small"), sound / "before", dirs_exist_ok=True)
    yield report_folder("small")
    shutil.rmtree(report_folder("small"))
    (sound / "before").rename(report_folder("small"))


def recorded(home: Path, description: str = "", language: str = "en") -> None:
    client, document = tracking.open_tracker(home), grid()
    for row, label in enumerate(("ce", "ce+supcon")):
        for seed in (0, 1):
            record.record_cell(client, "small", cell_folder(f"c{row}s{seed}", label, seed, 0.7 + 0.1 * row), [])
    document["experiment"] |= {"description": description, "report": {"language": language}}
    record.record_grid(client, "small", document)


def test_a_report_and_the_note_in_mlflow_are_in_the_language_of_the_experiment(home: Path):
    recorded(home, language="zh")
    built = build_report("small")
    assert built.finding == "无法检验差异，因为种子之间没有变化。" and built.finding in built.path.read_text(
        encoding="utf-8"
    )
    assert built.finding in tracking.open_tracker(home).get_experiment("1").tags["mlflow.note.content"]
    assert audit_report("small") == []


@pytest.mark.full
@pytest.mark.parametrize("description", MARKUP[1:])
def test_a_description_may_begin_like_markup(description: str, home: Path):
    recorded(home, description)
    build_report("small")
    assert audit_report("small") == []


FORGED = {  # in each file a piece, and what somebody makes of it; results and comparisons agree with each other
    "README.md": (b"| ce (baseline) | 70.00", b"| ce (baseline) | 79.00"),
    "answer.json": (b'"verdict": "', b'"verdict": "not '),
    "comparisons.csv": (b"0.7", b"0.9"),
    "figures/forest.svg": (b"stroke: #", b"stroke: #f0"),
    "figures/recipes-tsne.png": (b"IDAT", b"IDAU"),
    "index.html": (b"80.00", b"89.00"),
    "results.csv": (b"0.7", b"0.9"),
}


def test_each_edited_file_is_named(folder: Path):
    for name, (old, new) in FORGED.items():
        before = (folder / name).read_bytes()
        assert old in before, name
        (folder / name).write_bytes(before.replace(old, new, 1))
    assert audit_report("small") == [f"{folder}/{name} is not what is built now" for name in FORGED]


def test_a_sound_report_and_none_pass_an_audit_and_a_file_too_many_or_too_few_is_named(folder: Path):
    assert audit_report("small") == audit_report("other") == []
    (figure, *_) = sorted(folder.glob("figures/*"))
    figure.rename(folder / "other.svg")
    (folder / "answer.json").unlink()
    (folder / "answer.json").mkdir()
    assert audit_report("small") == [
        f"{folder}/answer.json is missing",
        f"{folder}/figures/{figure.name} is missing",
        f"{folder}/other.svg does not belong to this report",
    ]


def test_the_note_of_the_experiment_has_the_finding_and_leads_to_the_report(sound: Path, folder: Path):
    client = tracking.open_tracker(sound)
    (grid_run,) = record.grid_runs(client, "small")
    note = client.get_experiment_by_name("small").tags["mlflow.note.content"]
    assert grid_run.data.tags["verdict"] in note and f"/runs/{grid_run.info.run_id}/artifacts/report/index.html" in note
    assert grid_run.data.tags["verdict"] in (folder / "README.md").read_text()
    assert {item.path for item in client.list_artifacts(grid_run.info.run_id, "report")} >= {"report/index.html"}


def test_where_only_its_text_is_shown_a_report_has_no_dead_link(home: Path):
    recorded(home)
    report = build_report("small")
    assert "](figures/" in report.path.read_text() and "](index.html)" in report.path.read_text()
    assert "](figures/" not in report.markdown() and "index.html" in report.markdown().replace("](index.html)", "")
    assert "](index.html)" not in report.markdown()
