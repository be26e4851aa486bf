"""`ablate plan --to-decide`: what would decide an experiment, before there are results and after."""

from collections.abc import Iterator

from contrastive.cells.plan import Plan
from contrastive.errors import UserError
from contrastive.planning.estimate import Fit
from contrastive.runs.store import home
from flows.forecast import at, fitted_estimate, human_span
from reports.findings import with_interval
from reports.load import Results, load
from reports.looks import judge_section
from reports.statistics.cutoffs import LOOKS
from reports.verdicts import DECIDED
from tasks.tracking_address import tracking_uri


def lines(plan: Plan) -> Iterator[str]:
    fit = fitted_estimate(plan.experiment, at(plan))
    yield cost_of_one_seed(plan, fit)
    try:
        results = load(plan.experiment.name, tracking_uri(home()))
    except UserError:
        yield (
            "nothing has run yet, so that nobody knows how much seeds differ: `ablate run FILE --until-decided` begins "
            f"with {LOOKS[0]} seeds, and goes on with what is undecided"
        )
        return
    yield from undecided(plan, results, fit)


def cost_of_one_seed(plan: Plan, fit: Fit) -> str:
    """What one seed of every configuration costs here."""
    cells = [row.cells[0] for part in plan.resolved.sections for row in part.rows]
    each = [fit.seconds(cell) for cell in dict.fromkeys(cells)]
    seconds = [expected for expected in each if expected is not None]
    time = "an unknown time (`--calibrate` measures it)" if len(seconds) < len(each) else human_span(sum(seconds))
    return f"one seed of all {len(each)} configurations trains for {time}"


def undecided(plan: Plan, results: Results, fit: Fit) -> Iterator[str]:
    """A line a comparison that is open: seeds or test texts, and which of the two is cheaper here."""
    total = decided = 0
    for section in results.grid.sections:
        _, compared = judge_section(section, results)
        rows = {part.section.title: part.rows for part in plan.resolved.sections}.get(section.title, ())
        for line in (line for lines in compared.lines.values() for line in lines):
            total, decided = total + 1, decided + (line["verdict"] in DECIDED)
            if line["verdict"] == "undecided":
                cells = [row.cells[0] for row in rows if row.label in (line["label"], line["against"])]
                yield (
                    f"{section.title}: {line['label']} against {line['against']} in {line['value']} is undecided, "
                    + (f"{with_interval(line)}: {'; '.join(ways_to_decide(line, cells, fit)) or NOTHING}")
                )
    yield f"{decided} of {total} comparisons are decided"


NOTHING = "neither 64 seeds nor 100 times the test texts would decide a difference of this size"


def ways_to_decide(line: dict, cells: list, fit: Fit) -> list[str]:  # type: ignore[type-arg]
    """Seeds and test texts, each with its time, the cheaper one first."""
    options = []
    if line["needs_seeds"] == line["needs_seeds"]:
        each = [fit.seconds(cell) for cell in cells]
        seconds = sum(s for s in each if s is not None) * (line["needs_seeds"] - line["common"])
        time = f", {human_span(seconds)} of training" if cells and None not in each else ""
        options.append((seconds, f"{int(line['needs_seeds'])} seeds{time}"))
    if line["needs_texts"] == line["needs_texts"]:
        options.append((0.0, f"{int(line['needs_texts'])} test texts, which are only embedded"))
    return [text for _, text in sorted(options)]
