"""The flow `nightly`: a fixed panel measured anew, recorded as one night, and judged against the pinned window."""

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
from flows.night.verdict_settings import read_verdict_settings
from reports.nightly import history
from reports.nightly.measured import Night
from reports.nightly.page import Said
from reports.nightly.settings import Nightly
from reports.nightly.verdict import judge_by_documents
from tasks import nights as tracked
from tasks.engines import EngineName


class NightFailed(RuntimeError):
    """Something became worse, or measured nothing; the message names the metrics."""


@flow(name="nightly", flow_run_name="nightly · {panel}", persist_result=False)
def nightly(
    panel: str = "configs/nightly.yaml",
    settings: str = "configs/nightly/verdict.yaml",
    engine: EngineName = "local",
) -> str:
    """Measure a panel of cells anew and say what became better or worse than it was in the pinned nights.

    Args:
        panel: path of an experiment file, which is run whole, whatever has been computed before
        settings: path of the settings of the verdict
        engine: where cells run: local, ray or inline, as for `ablation-grid`
    """
    store.check_home()
    limits = read_verdict_settings(Path(settings))
    with store.locked(store.home() / "locks" / "nightly"):
        shutil.rmtree(night_folder(), ignore_errors=True)  # what a night that was killed has left
        try:
            document = measure_night(Path(panel), limits, engine)
        finally:
            shutil.rmtree(night_folder(), ignore_errors=True)
        tracked.record_night(document)
        said = tracked.report_night()
    create_markdown_artifact(key="nightly", markdown=said.path.read_text(encoding="utf-8"))
    webhook.post(webhook_content(said))
    if said.failing:
        raise NightFailed(message(said))
    return f"{said.headline}; {said.path}"


def night_folder() -> Path:
    return store.home() / "nightly"


@task(name="panel", task_run_name="panel · run {number}", cache_policy=NO_CACHE, persist_result=False)
def run_panel(panel: Path, engine: str, number: int) -> dict[str, Any]:
    """The whole panel in a home of its own, so that nothing can be reused."""
    return panels.measure_panel(panel, night_folder() / f"run-{number}", engine)


def measure_night(panel: Path, settings: Nightly, engine: str) -> dict[str, Any]:
    """Everything that is kept of a night. What it makes suspect of the quality, a second run has to confirm."""
    earlier = tracked.past()
    when = datetime.now(UTC).isoformat(timespec="seconds")
    first = run_panel(panel, engine, 1)
    surroundings = first["hardware"] | panels.panel_environment(panel, engine, settings.baseline)
    document = {
        "version": 1,
        "when": when,
        "commit": provenance.commit(),
        "commits": list(panels.commits_after(earlier[-1].document["commit"] if earlier else "")),
        "environment": surroundings,
        "epoch": key("surroundings", values=surroundings),
        "settings": settings.model_dump(mode="json"),
        "configurations": first["configurations"],
        "seeds": first["seeds"],
        "texts": first["texts"],
        "directions": first["directions"],
        "runs": [{"values": first["values"], "failed": first["failed"]}],
    }
    if suspects([*earlier, history.night(document)]):
        second = run_panel(panel, engine, 2)
        document["runs"].append({"values": second["values"], "failed": second["failed"]})
    return document


def suspects(nights: list[Night]) -> bool:
    """Whether the last night makes a score suspect that no night before did; timings wait for another night."""
    judgements = judge_by_documents(nights)[-1]
    return any(
        judgement.suspected and judgement.verdict == "inconclusive" and not judgement.metric.is_timing
        for judgement in judgements
    )


def message(said: Said) -> str:
    lines = [f"{judgement.metric.name}: {judgement.verdict}, {judgement.why.en}" for judgement in said.failing]
    return "\n".join([f"{said.headline}; report: {said.path}", *(f"  {line}" for line in lines)])


def webhook_content(said: Said) -> dict[str, Any]:
    """What a webhook gets; `text` is what chat programs show."""
    return {
        "text": f"nightly at {said.night.document['commit'] or 'unknown'}: {said.headline}",
        "when": said.night.when,
        "commit": said.night.document["commit"],
        "failed": bool(said.failing),
        "verdicts": {judgement.metric.name: judgement.verdict for judgement in said.judgements},
    }
