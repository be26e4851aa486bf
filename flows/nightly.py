"""The flow `nightly`: a fixed panel measured anew, recorded as one night, and judged against the nights before."""

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prefect import flow, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE

from contrastive.runs import provenance, store
from contrastive.runs.fingerprint import key
from flows.night import panel as panels
from flows.night import webhook
from flows.night.commits import commit_of, commits_after, short_commit, worktree
from flows.night.verdict_settings import read_verdict_settings
from reports.nightly import history
from reports.nightly.page import NightlyResult
from reports.nightly.settings import Nightly
from tasks import nights as tracked
from tasks.engines import EngineName


class NightFailed(RuntimeError):
    """Something became worse, or measured nothing; the message names the metrics."""


@flow(name="nightly", flow_run_name="nightly · {panel}", persist_result=False)
def nightly(
    panel: str = "configs/nightly.yaml",
    settings: str = "configs/nightly/verdict.yaml",
    engine: EngineName = "local",
    against: str = "",
) -> str:
    """Measure a panel of cells anew and say what became better or worse than it was in the nights of the baseline.

    Args:
        panel: path of an experiment file, which is run whole, whatever has been computed before
        settings: path of the settings of the verdict
        engine: where cells run: local, ray or inline, as for `ablation-grid`
        against: a commit to measure, too, and compare with, as for a pull request; no night is recorded then
    """
    store.check_home()
    commit = commit_of(against) if against else ""
    limits = read_verdict_settings(Path(settings))
    with store.locked(store.home() / "locks" / "nightly"):
        shutil.rmtree(night_folder(), ignore_errors=True)  # what a night that was killed has left
        try:
            if commit:
                said = compare_with(commit, Path(panel), limits, engine)
            else:
                tracked.record_night(measure_night(Path(panel), limits, engine))
                said = tracked.report_night()
        finally:
            shutil.rmtree(night_folder(), ignore_errors=True)
    create_markdown_artifact(
        key="nightly-against" if commit else "nightly", markdown=said.path.read_text(encoding="utf-8")
    )
    if not commit:
        webhook.post(webhook_content(said))
    if said.failing:
        raise NightFailed(message(said))
    return f"{said.headline}; {said.path}"


def measure_night(panel: Path, settings: Nightly, engine: str) -> dict[str, Any]:
    """Everything that is kept of a night."""
    earlier = tracked.past()
    commits = list(commits_after(earlier[-1].document["commit"] if earlier else ""))
    measured = run_panel(panel, engine)
    surroundings = measured["hardware"] | panels.panel_environment(panel, engine, settings.baseline)
    return as_document(measured, settings, provenance.commit(), commits, surroundings)


def compare_with(commit: str, panel: Path, settings: Nightly, engine: str) -> NightlyResult:
    """The panel at a commit and by the code of now, one after the other; no night comes of it."""
    commits = list(commits_after(commit))
    with worktree(night_folder(), commit) as code:
        before = as_document(run_panel_at(commit, code, panel, engine), settings, short_commit(commit), [], {})
        now = as_document(run_panel(panel, engine, timed=False), settings, provenance.commit(), commits, {})
    return tracked.report_against(before, now)


@task(name="panel", task_run_name="panel", cache_policy=NO_CACHE, persist_result=False)
def run_panel(panel: Path, engine: str, timed: bool = True) -> dict[str, Any]:
    """The whole panel in a home of its own, so that nothing can be reused."""
    return panels.measure_panel(panel, night_folder() / "run", engine, timed=timed)


@task(name="panel-at", task_run_name="panel · {commit}", cache_policy=NO_CACHE, persist_result=False)
def run_panel_at(commit: str, code: Path, panel: Path, engine: str) -> dict[str, Any]:
    """The same at a commit, by its own code."""
    return panels.measure_commit(commit, code, panel, engine, timed=False)


def night_folder() -> Path:
    return store.home() / "nightly"


def as_document(
    measured: dict[str, Any],
    settings: Nightly,
    commit: str,
    commits: list[list[str]],
    surroundings: dict[str, str],
) -> dict[str, Any]:
    return {
        "version": history.VERSION,
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit,
        "commits": commits,
        "environment": surroundings,
        "epoch": key("surroundings", values=surroundings),
        "settings": settings.model_dump(mode="json"),
        **{name: value for name, value in measured.items() if name != "hardware"},
    }


def message(said: NightlyResult) -> str:
    lines = [
        f"{judgement.metric.name}: {judgement.verdict}" + (f", {why}" if (why := str(judgement.why)) else "")
        for judgement in said.failing
    ]
    return "\n".join([f"{said.headline}; report: {said.path}", *(f"  {line}" for line in lines)])


def webhook_content(said: NightlyResult) -> dict[str, Any]:
    """What a webhook gets; `text` is what chat programs show."""
    return {
        "text": f"nightly at {said.night.document['commit'] or 'unknown'}: {said.headline}",
        "when": said.night.when,
        "commit": said.night.document["commit"],
        "failed": bool(said.failing),
        "verdicts": {judgement.metric.name: judgement.verdict for judgement in said.judgements},
    }
