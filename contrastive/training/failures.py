"""Turn a stage's exception into a failure report (kind, message, traceback), kept as FAILED.json."""

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from contrastive.config import registry
from contrastive.errors import UserError
from contrastive.runs import claim, stopping, store
from contrastive.training.health import GradientPathError
from contrastive.training.processes import JobFailed
from contrastive.training.train import Diverged


def run_stage(stage: Callable[..., None], folder: Path, *arguments: Any) -> dict[str, Any] | None:
    """Run a stage in a worker; return its failure report, which is also written to the folder, or None. Never
    raises."""
    try:
        stage(folder, *arguments)
    except Exception as error:
        return record_failure(folder, error)
    return None


def record_failure(folder: Path, error: BaseException) -> dict[str, Any]:
    """Write the failure report into the cell's folder, unless the cell was only stopped; return the report."""
    report = failure_report(error)
    if report["kind"] in claim.NO_FAILURE:
        return report
    try:
        with claim.hold(folder, wait=False) as is_free:
            if is_free:  # otherwise another process tries again and reports its own outcome
                store.write_json(folder / "FAILED.json", report)
    except OSError as refused:
        if store.explain_os_error(refused) not in report["error"]:
            report["error"] += f" (and this report could not be saved: {store.explain_os_error(refused)})"
    return report


def failure_report(error: BaseException) -> dict[str, Any]:
    """Return the content of FAILED.json for an exception."""
    if isinstance(error, JobFailed):
        return error.report
    report: dict[str, Any] = {"kind": claim.kind_of(error), "error": failure_message(error)}
    if isinstance(error, Diverged):
        report["step"] = error.step
    if not isinstance(error, UserError):
        report["traceback"] = "".join(traceback.format_exception(error))
    return report


def failure_message(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno in store.FULL + store.FORBIDDEN + store.MISPLACED:
        return store.explain_os_error(error)
    if isinstance(error, GradientPathError):
        return f"{error}. A hinge whose margin all texts keep has none either"
    if isinstance(error, UserError | Diverged | stopping.Stopped):
        return str(error)
    return f"{plugin_line(error)}{type(error).__name__}: {error}"


def plugin_line(error: BaseException) -> str:
    """Return the last line of a user's file that was reached, as `my_loss.py, line 12: `; empty if none was."""
    frames = traceback.extract_tb(error.__traceback__)
    files = {str(path) for path in registry.PLUGINS.values()}
    lines = [f"{Path(frame.filename).name}, line {frame.lineno}: " for frame in frames if frame.filename in files]
    return lines[-1] if lines else ""
