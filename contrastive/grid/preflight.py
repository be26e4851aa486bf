"""Preflight checks before training: data that cannot be split, scores that cannot be computed, a missing GPU."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from contrastive import data as datasets
from contrastive.config import registry
from contrastive.config.cell import Cell
from contrastive.config.evaluation import Evaluation
from contrastive.data.splits import grades_of
from contrastive.errors import UserError
from contrastive.grid.identity import text_settings
from contrastive.grid.plan import Plan
from contrastive.runs import store

MOST = 20  # most splits of data that are checked, so that a plan stays quick
ClassCounts = dict[str, dict[str, int]]  # split → class → texts
ONE_SEED = (
    "each row has one seed, so that no difference can be tested: list more in `seeds`, or let `ablate run FILE "
    "--until-decided` add them"
)


@dataclass(frozen=True)
class PreflightReport:
    """`errors`: why nothing can be trained or evaluated; `warnings`: which cells, scores, verdicts will be missing."""

    errors: list[str]
    warnings: list[str]

    def refuse(self) -> None:
        """Raise UserError if there are errors."""
        if self.errors:
            raise UserError("\n".join(self.errors))


def preflight(plan: Plan, *, on_gpu: bool) -> PreflightReport:
    report = check_data(plan)
    if not on_gpu and any(cell.training.precision == "fp16" for cell in plan.to_train):
        report.errors.append("training.precision is fp16, which needs a GPU, but there is none here: take bf16 or fp32")
    compared = [row for section in plan.resolved.sections for row in section.rows if row.against is not None]
    if {len(row.cells) for row in compared} == {1}:
        report.warnings.append(ONE_SEED)
    return report


def check_data(plan: Plan) -> PreflightReport:
    """Return errors and warnings about the data; unusable data is only an error if no other data is usable."""
    evaluation, unusable, warnings = plan.experiment.evaluation, list[str](), list[str]()
    to_do = [status.cell for status in plan.to_do]
    divisions = list({(text_settings(cell.data), cell.train_sample_seed()): cell for cell in to_do}.values())[:MOST]
    for cell in divisions:
        name = plan.resolved.data_names[cell.data]
        about = f"data {name}: " if name else ""
        try:
            counts = class_counts(cell, plan.test_key(cell), evaluation.test)
            graded = {it.objective.graded() for it in to_do if it.data == cell.data} - {""}
            for loss in graded if counts else ():
                grades_of(counts["train"], loss)
            warnings += [f"{about}{line}" for line in impossible_scores(counts, evaluation)]
        except UserError as error:
            unusable.append(f"{about}{error}")
    if unusable and len(unusable) == len(divisions):
        return PreflightReport(unusable, warnings)
    return PreflightReport([], [f"{line} (the cells with this data will fail)" for line in unusable] + warnings)


@cache
def class_counts(cell: Cell, key: str, measured: int | None) -> ClassCounts:
    """Return the class counts from the prepared tokens, else from the files; none for data on a hub, which is not
    fetched here. Cached, since a command and its flow check in one process. `key`: of the tokens."""
    prepared = store.cache_folder("tokens", key)
    if store.finished(prepared):
        counts: ClassCounts = store.read_json(prepared / "meta.json")["class_counts"]
        return counts
    if cell.data.source.startswith("hf:"):
        return {}
    return datasets.load_splits(cell.data, cell.train_sample_seed(), measured).class_counts()


def impossible_scores(counts: ClassCounts, evaluation: Evaluation) -> Iterator[str]:
    """Yield which scores cannot be computed on a split, and why."""
    facts = {name: registry.metrics()[name].facts for name in evaluation.metrics}
    of_classes = ", ".join(name for name in facts if facts[name].of_classes)
    folded = ", ".join(name for name in facts if facts[name].folded)
    for split in evaluation.splits if counts else ():
        sizes = [count for count in counts[split].values() if count]
        if not sizes:
            raise UserError(f"{split} has no texts; set data.{split}, or remove {split} from evaluation.splits")
        if len(sizes) == 1 and of_classes:
            yield f"{split} has {sizes[0]} texts, all of one class: {of_classes} will be left out"
        elif len(sizes) > 1 and min(sizes) < evaluation.folds and folded:
            too_few = (
                f"the smallest class of {split} has {min(sizes)} texts, and evaluation.folds is {evaluation.folds}"
            )
            yield f"{too_few}: {folded} will be left out"
