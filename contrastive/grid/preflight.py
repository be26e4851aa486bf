"""What is known to go wrong before anything trains: data that cannot be divided, scores that its texts cannot have."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice

from contrastive import data as datasets
from contrastive.config import registry
from contrastive.config.cell import Cell, Data
from contrastive.config.evaluation import Evaluation
from contrastive.errors import UserError
from contrastive.grid.identity import text_settings
from contrastive.grid.plan import Plan
from contrastive.runs import store
from contrastive.runs.store import cache_folder

MOST = 20  # divisions of data that are looked at: a plan is to stay quick
ClassCounts = dict[str, dict[str, int]]  # split → class → texts


@dataclass(frozen=True)
class PreflightReport:
    """`errors` are why nothing can be trained or measured; `warnings`, what will be missing."""

    errors: tuple[str, ...]
    warnings: tuple[str, ...]

    def __add__(self, other: "PreflightReport") -> "PreflightReport":
        return PreflightReport(self.errors + other.errors, self.warnings + other.warnings)

    def refuse(self) -> None:
        if self.errors:
            raise UserError("\n".join(self.errors))


def preflight(plan: Plan, *, on_gpu: bool) -> PreflightReport:
    to_train = [status.cell for status in plan.to_do if status.action != "evaluate"]
    errors, warnings = check_data(plan)
    if not on_gpu and any(cell.training.precision == "fp16" for cell in to_train):
        errors.append("training.precision is fp16, which needs a GPU, and there is none here: take bf16 or fp32")
    return PreflightReport(tuple(errors), tuple(warnings))


def check_data(plan: Plan) -> tuple[list[str], list[str]]:
    """Unusable data is an error where no other is usable; else the other cells can go on without its own."""
    names, unusable, warnings = plan.resolved.data_names, list[str](), list[str]()
    divisions = {
        (text_settings(status.cell.data), status.cell.train_sample_seed()): status.cell for status in plan.to_do
    }
    for cell in islice(divisions.values(), MOST):
        about = f"data {names[cell.data]}: " if names[cell.data] else ""
        try:
            counts = known_class_counts(cell, plan.test_key(cell), plan.experiment.evaluation.test)
            warnings += (
                [f"{about}{line}" for line in impossible_scores(counts, plan.experiment.evaluation)] if counts else []
            )
        except UserError as error:
            unusable.append(f"{about}{error}")
    if unusable and len(unusable) == min(len(divisions), MOST):
        return unusable, warnings
    return [], [f"{line} (its cells will fail)" for line in unusable] + warnings


def known_class_counts(cell: Cell, key: str, measured: int | None = None) -> ClassCounts | None:
    """As they were noted when the tokens with this key were prepared, or of the files; None of a hub's data, which is
    not fetched."""
    prepared = cache_folder("tokens", key)
    if store.finished(prepared):
        counts: ClassCounts = store.read_json(prepared / "meta.json")["class_counts"]
        return counts
    return None if cell.data.source.startswith("hf:") else _divided(cell.data, cell.train_sample_seed(), measured, key)


@cache
def _divided(data: Data, draw: int | None, measured: int | None, key: str) -> ClassCounts:
    """Of the files as the key tells them: the command looks first, and then its flow in the same process."""
    return datasets.load_splits(data, draw, measured).class_counts()


def impossible_scores(counts: ClassCounts, evaluation: Evaluation) -> Iterator[str]:
    """The scores that the texts of a split cannot have, and why."""
    metrics = registry.metrics()
    comparing = [name for name in evaluation.metrics if metrics[name].facts.of_classes]
    folded = [name for name in evaluation.metrics if metrics[name].facts.folded]
    for split in evaluation.splits:
        sizes = [count for count in counts[split].values() if count]
        if not sizes:
            raise UserError(f"{split} has no texts to evaluate on: set data.{split}, or evaluation.splits without it")
        if len(sizes) == 1 and (lost := ", ".join(comparing)):
            yield f"{split} has {sizes[0]} texts, all of one class: {lost} will be left out"
        elif len(sizes) > 1 and min(sizes) < evaluation.folds and (lost := ", ".join(folded)):
            yield (
                f"the smallest class of {split} has {min(sizes)}, and {evaluation.folds} folds need {evaluation.folds} "
                f"texts: {lost} will be left out; set evaluation.folds lower, or give the split more texts"
            )
