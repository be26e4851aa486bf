"""`ablate plan --to-decide`: list what would decide each open comparison, with or without results so far."""

import math
from collections import Counter
from collections.abc import Iterator

from contrastive.config.cell import Cell, Data
from contrastive.errors import UserError
from contrastive.grid.estimate import CostEstimator
from contrastive.grid.plan import Plan, declaration, recorded_declarations, recorded_grid
from contrastive.runs.store import home
from flows.forecast import cost_estimator
from flows.study import plan_so_far
from flows.terminal import human_span
from reports.compare import Comparison
from reports.guards import changed_declarations
from reports.load import load
from reports.looks import compare_section
from reports.markdown import difference_text, most_of, unit, with_unit
from reports.provenance import rows_dropped
from reports.statistics.cutoffs import LOOKS
from reports.statistics.decide import DECIDED
from reports.study import Results
from tasks.address import tracking_uri


def lines(plan: Plan) -> Iterator[str]:
    fit = cost_estimator(plan)
    yield cost_of_one_seed(plan, fit)
    try:
        plan, stopping = plan_so_far(plan.resolved, records=False)
        results = load(plan.experiment.name, tracking_uri(home()), recorded_grid(plan, [], stopping))
    except UserError:
        yield (
            "nothing has run yet, so the spread between seeds is unknown: `ablate run FILE --until-decided` starts "
            f"with {LOOKS[0]} seeds and adds more where undecided"
        )
        return
    now = declaration(plan, None if stopping is None else stopping.most_seeds)
    for before in recorded_declarations(plan.experiment.name)[-1:]:
        for change in changed_declarations(before, now):
            yield f"changed since the last declaration of how results are judged: {change}"
    yield from undecided(plan, results, fit)


def cost_of_one_seed(plan: Plan, fit: CostEstimator) -> str:
    """Describe the training time of one seed of every configuration here."""
    cells = [row.cells[0] for part in plan.resolved.sections for row in part.rows]
    each = [fit.seconds(cell) for cell in dict.fromkeys(cells)]
    seconds = [expected for expected in each if expected is not None]
    time = "an unknown time (`--calibrate` measures it)" if len(seconds) < len(each) else human_span(sum(seconds))
    return f"one seed of all {len(each)} configurations trains for {time}"


def undecided(plan: Plan, results: Results, fit: CostEstimator) -> Iterator[str]:
    """Yield a line per undecided comparison: the seeds or test texts it needs, the cheaper first."""
    missing = {status.id for status in plan.statuses.values()} - results.cells.keys()
    if missing:
        yield f"{len(missing)} of {len(plan.statuses)} cells have no results yet: `ablate run FILE` trains them"
    verdicts = Counter[str]()
    for section in results.study.sections:
        _, compared = compare_section(section, results)
        rows = {part.section.title: part.rows for part in plan.resolved.sections}.get(section.title, ())
        if not compared.comparisons:
            yield f"{section.title}: nothing to compare; name a baseline with `baseline:`"
        for score, comparison in compared.comparisons:
            verdicts[score.verdict] += 1
            if score.verdict == "undecided":
                label, against, scale = score.row.label, comparison.against.label, unit(score.value)
                cells = [row.cells[0] for row in rows if row.label in (label, against)]
                ways = [*more_seeds(comparison, cells, fit), *more_texts(comparison, cells, plan, results, fit)]
                joint = " together with " if comparison.needs and comparison.needs.together else ", or "
                known = difference_text(
                    scale * comparison.difference, scale * comparison.half_width, most_of(score.value)
                )
                size = with_unit(known, scale > 1)
                advice = joint.join(text for _, text in sorted(ways)) or NOTHING
                yield f"{section.title}: {label} vs. {against} in {score.value} is undecided, {size}: {advice}"
    total = verdicts.total()
    for kind, why in NOT_JUDGED.items():
        if verdicts[kind]:
            yield f"{verdicts[kind]} of {total} comparisons cannot be judged yet: {why}"
    yield f"{sum(verdicts[kind] for kind in DECIDED)} of {total} comparisons are decided"


NOT_JUDGED = {
    "not comparable": "cells have no results, or a warning in the report rules out the comparison",
    "one seed": "one seed shows no spread between seeds; `ablate run FILE --until-decided` adds seeds",
    "no spread": "all seeds give the same score",
}
NOTHING = "even 64 seeds and 100 times the test texts would not decide a difference this small"


def more_seeds(comparison: Comparison, cells: list[Cell], fit: CostEstimator) -> Iterator[tuple[float, str]]:
    """Yield (training seconds, text) for the seeds that would decide a comparison."""
    if comparison.needs and comparison.needs.seeds is not None:
        each = [fit.seconds(cell) for cell in cells]
        seconds = sum(s for s in each if s is not None) * (comparison.needs.seeds - comparison.seeds)
        time = f" ({human_span(seconds)} of training)" if cells and None not in each else ""
        yield seconds, f"{comparison.needs.seeds} seeds{time}"


def more_texts(
    comparison: Comparison, cells: list[Cell], plan: Plan, results: Results, fit: CostEstimator
) -> Iterator[tuple[float, str]]:
    """Yield (seconds, text) for the test texts that would decide a comparison, or why there are none."""
    needs = comparison.needs
    if not cells or needs is None or needs.texts is None:
        return
    count, data = needs.texts, cells[0].data
    evaluation = plan.experiment.evaluation.model_copy(update={"test": count})
    left = texts_left(data, plan, results)
    reason = evaluation.unmeasurable(data) or (
        f"the data has only {left} texts left" if left is not None and left < count else ""
    )
    if reason:
        yield math.inf, f"{count} test texts ({reason})"
        return
    each = [fit.embedding_seconds(cell, count) for cell in plan.resolved.cells]
    seconds = sum(s for s in each if s is not None)
    kind = " of evaluation, without training"
    if needs.together and needs.seeds is not None:
        further = (fit.embedding_seconds(cell, count) for cell in cells)
        seconds += sum(s for s in further if s is not None) * (needs.seeds - comparison.seeds)
        kind = " of evaluation"
    time = f"; {human_span(seconds)}{kind}" if None not in each else ""
    yield seconds, f"{count} test texts (`evaluation: {{test: {count}}}`{time})"


def texts_left(data: Data, plan: Plan, results: Results) -> int | None:
    """Return how many texts are left for testing; None if they have not been counted."""
    name = plan.resolved.data_names[data]
    counts = next((part.sifted.get("source") for part in results.study.data if part.name == name), None)
    if counts is None or not isinstance(data.validation, int) or data.train is None:
        return None
    return counts["rows"] - rows_dropped(counts) - data.validation - data.train
