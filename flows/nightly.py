"""Flow `nightly`: measure a fixed panel, record it as a night, and report its comparison (reports/night.py)."""

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from prefect import flow, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE

from contrastive.runs import provenance, store
from contrastive.runs.fingerprint import key
from flows import panel as panels
from flows.serve.servers import CHECKOUT, begin_flow
from flows.terminal import ExitWith
from reports.night import NIGHT, VERSION, NightSettings, NightVerdict, write_against
from tasks import nights as tracked
from tasks.engines import EngineName

Commits: TypeAlias = list[tuple[str, str]]  # id and subject


@flow(name="nightly", flow_run_name="nightly · {panel}", persist_result=False)
def nightly(
    panel: str = "configs/nightly.yaml",
    settings: str = "configs/nightly/verdict.yaml",
    engine: EngineName = "local",
    against: str = "",
) -> str:
    """Measure a panel of cells and report what got better or worse than in an earlier night.

    Args:
        panel: path of an experiment file; all of its cells are trained, nothing is reused
        settings: path of the settings of the verdict
        engine: where cells run: local, ray or inline, as for `ablation-grid`
        against: a commit to measure too and compare with, as for a pull request; then no night is recorded
    """
    begin_flow()
    commit, rules = panels.commit_of(against) if against else "", panels.read_settings(Path(settings))
    with store.locked(store.home() / "locks" / "nightly"):
        try:
            if commit:
                page, verdict = compare_with(commit, Path(panel), rules, engine)
            else:
                earlier = tracked.past()
                commits = panels.commits_after(earlier[-1].commit if earlier else "")
                tracked.record_night(document(Path(panel), rules, engine, provenance.commit(), commits))
                page, verdict = tracked.report_night()
        finally:
            shutil.rmtree(night_folder(), ignore_errors=True)
    create_markdown_artifact(key="nightly-against" if commit else "nightly", markdown=page.read_text(encoding="utf-8"))
    if verdict.failing:
        lines = [f"  {name}: {kind}" for kind, name in verdict.failing]
        raise ExitWith("\n".join([f"{verdict.headline}; report: {page}", *lines]))
    return f"{verdict.headline}; {page}"


def compare_with(commit: str, panel: Path, settings: NightSettings, engine: EngineName) -> tuple[Path, NightVerdict]:
    """Measure the panel at a commit and with the current code; keep the commit's results for bisection."""
    name = key("night", commit=commit, surroundings=panels.conditions(panel, engine))
    kept = store.home() / "cache" / "nightly" / f"{name}.json"
    if not kept.exists():
        with panels.worktree(night_folder(), commit) as code:
            store.write_json(kept, document(panel, settings, engine, commit, [], code))
    now = document(panel, settings, engine, provenance.commit(), panels.commits_after(commit))
    then, tonight = map(NIGHT.validate_python, (store.read_json(kept), now))
    return write_against(then, tonight, store.report_folder("nightly"))


@task(name="panel", task_run_name="panel", cache_policy=NO_CACHE, persist_result=False)
def run_panel(panel: Path, engine: EngineName, code: Path) -> dict[str, Any]:
    """Run the whole panel in a new home, so that nothing can be reused."""
    return panels.measure_panel(panel, night_folder() / ("now" if code == CHECKOUT else "then"), engine, code)


def night_folder() -> Path:
    return store.home() / "nightly"


def document(
    panel: Path, settings: NightSettings, engine: EngineName, commit: str, commits: Commits, code: Path = CHECKOUT
) -> dict[str, Any]:
    """Measure the panel with the code in a folder; return the content of night.json, which `Night` reads."""
    measured = run_panel(panel, engine, code)
    return {
        "version": VERSION,
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit,
        "commits": commits,
        "environment": panels.conditions(panel, engine) | {"devices": measured["devices"]},
        "settings": settings.model_dump(mode="json"),
        **{name: value for name, value in measured.items() if name != "devices"},
    }
