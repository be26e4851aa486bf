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
from contrastive.grid.identity import same_texts
from contrastive.grid.plan import Plan
from contrastive.runs import store
from contrastive.runs.store import place_of

MOST = 20  # divisions of data that are looked at: a plan is to stay quick
ClassCounts = dict[str, dict[str, int]]  # split → class → texts


@dataclass(frozen=True)
class Foreseen:
    """`errors` are why nothing can be trained or measured; `warnings`, what will be missing."""

    errors: tuple[str, ...]
    warnings: tuple[str, ...]

    def __add__(self, other: "Foreseen") -> "Foreseen":
        return Foreseen(self.errors + other.errors, self.warnings + other.warnings)

    def refuse(self) -> None:
        if self.errors:
            raise UserError("\n".join(self.errors))


def foresee(plan: Plan, *, on_gpu: bool) -> Foreseen:
    to_train = [status.cell for status in plan.to_do if status.action != "evaluate"]
    errors, warnings = of_data(plan)
    if not on_gpu and any(cell.training.precision == "fp16" for cell in to_train):
        errors.append("training.precision is fp16, which needs a GPU, and there is none here: take bf16 or fp32")
    return Foreseen(tuple(errors), tuple(warnings))


def of_data(plan: Plan) -> tuple[list[str], list[str]]:
    """Unusable data is an error where no other is usable; else the other cells can go on without its own."""
    names, unusable, warnings = plan.resolved.data_names, list[str](), list[str]()
    divisions = {(same_texts(status.cell.data), status.cell.draw()): status.cell for status in plan.to_do}
    for cell in islice(divisions.values(), MOST):
        about = f"data {names[cell.data]}: " if names[cell.data] else ""
        try:
            counts = noted_class_counts(cell, plan.test_key(cell), plan.experiment.evaluation.test)
            warnings += (
                [f"{about}{line}" for line in impossible_scores(counts, plan.experiment.evaluation)] if counts else []
            )
        except UserError as error:
            unusable.append(f"{about}{error}")
    if unusable and len(unusable) == min(len(divisions), MOST):
        return unusable, warnings
    return [], [f"{line} (its cells will fail)" for line in unusable] + warnings


def noted_class_counts(cell: Cell, key: str, measured: int | None = None) -> ClassCounts | None:
    """As they were noted when the tokens with this key were prepared, or of the files; None of a hub's data, which is
    not fetched."""
    prepared = place_of("tokens", key)
    if store.finished(prepared):
        counts: ClassCounts = store.read_json(prepared / "meta.json")["class_counts"]
        return counts
    return None if cell.data.source.startswith("hf:") else _divided(cell.data, cell.draw(), measured, key)


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
