"""Problems known before a run, from the plan and the devices of this machine."""

from contrastive.config.experiment import Resources
from contrastive.grid.plan import Plan
from contrastive.grid.preflight import PreflightReport, preflight
from tasks.engines import EngineName
from tasks.engines.local import devices_and_cores


def preflight_report(plan: Plan, gpus_per_cell: float | None = None, engine: EngineName = "local") -> PreflightReport:
    """Return errors and warnings known before a run. `gpus_per_cell` is the command's option. On Ray the devices are
    unknown at this point, so a GPU is assumed."""
    resources = plan.experiment.resources
    overridden = resources if gpus_per_cell is None else resources.model_copy(update={"gpus_per_cell": gpus_per_cell})
    on_gpu = engine == "ray" or devices_and_cores(overridden, plan.most_threads).on_gpu
    found = preflight(plan, on_gpu=on_gpu)
    if engine == "inline" and gpus_per_cell is not None:
        why = "--gpus-per-cell has no effect with --engine inline: leave it out, or take another engine"
        return found + PreflightReport((why,), ())
    return found + _missing_gpu(resources, gpus_per_cell, on_gpu)


def _missing_gpu(resources: Resources, gpus_per_cell: float | None, on_gpu: bool) -> PreflightReport:
    """Report a GPU share without a GPU: an error for the command's option, a warning for the file's setting."""
    share = gpus_per_cell if gpus_per_cell is not None else resources.gpus_per_cell
    if on_gpu or not share:
        return PreflightReport((), ())
    if gpus_per_cell is not None:
        return PreflightReport(
            (f"--gpus-per-cell is {share:g}, but this machine has no GPU: leave it out or set it to 0",), ()
        )
    if "gpus_per_cell" not in resources.model_fields_set:
        return PreflightReport((), ())
    return PreflightReport(
        (), (f"resources.gpus_per_cell is {share:g}, but this machine has no GPU: cells train on the CPU",)
    )
