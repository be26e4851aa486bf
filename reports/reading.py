"""How to read the numbers of a report, and which measured scores it does not show."""

from reports.data_counts import cells_by_data, counts_of
from reports.guards.section_cells import listed
from reports.load import SCORE, Results
from reports.markdown import heading
from reports.messages import Said, _, n_
from reports.rows import shown_values

TRAINED_ON = {
    frozenset({False}): _("All seeds train on the same texts: what is concluded holds for these training texts."),
    frozenset({True}): _(
        "Each seed draws its own training texts: what is concluded holds for training texts drawn from this data."
    ),
    frozenset({False, True}): _(
        "With data.resample each seed draws its own training texts; without it all seeds train on the "
        "same, and what is concluded holds for these."
    ),
}
NAMED = 8  # scores that a sentence names


def reading(results: Results) -> list[Said]:
    """Definitions, as far as this report needs them."""
    rows = [row for section in results.grid.sections for row in section.rows]
    seeds = max((len(row.seeds) for row in rows), default=0)
    if seeds == 1:
        return [
            _(
                "One seed a configuration: nothing is known of the spread between seeds, and no difference here "
                "can be called real. Nothing is ranked, and nothing is bold."
            ),
            *standard_errors(results),
        ]
    return [
        _("± of a mean: half of its 95 % interval over up to {seeds} seeds (Student's t).", seeds=seeds),
        _(
            "▲ better, ▼ worse: the interval of the difference to the baseline leaves out 0. = equivalent: it lies "
            "within the margin that was declared too small to matter. ? undecided: neither. One interval holds for all "
            "comparisons of a section together."
        ),
        _("Bold: tied with the best. Nothing is bold where no row is excluded, or where a note forbids to rank."),
        _(
            "p, the texts on which just one of two models is right, and the probability of improvement: "
            "comparisons.csv."
        ),
        TRAINED_ON[frozenset(row.drawn for row in rows) or frozenset({False})],
        *standard_errors(results),
    ]


def standard_errors(results: Results) -> list[Said]:
    """What chance alone makes of one accuracy on so many test texts."""
    if "test.accuracy" not in results.scores:
        return []
    said = list[Said]()
    for data, cells in cells_by_data(results).items():
        counts = counts_of(results, cells).get("test")
        mean = float(results.scores["test.accuracy"].reindex(cells).mean())
        if counts and 0 <= mean <= 1:
            count = sum(counts.values())
            size = f"{100 * (mean * (1 - mean) / count) ** 0.5:.1f}"
            name = _(" of {data}", data=data) if data else ""
            said.append(
                _(
                    "On {count} test texts{name}, one accuracy has a standard error of {size} points by the choice of "
                    "texts alone.",
                    count=count, name=name, size=size,
                )
            )  # fmt: skip
    return said


def not_shown(results: Results) -> list[Said]:
    """Scores that were measured and that no table shows."""
    shown = {value for section in results.grid.sections for value in shown_values(section, results)}
    measured = [name for name in results.scores.columns if SCORE.match(name) and "/" not in name]
    names = [heading(name) for name in measured if name not in shown]
    if not names:
        return []
    return [
        n_(
            "Measured and not shown in a table: {names} (results.csv).",
            "{count} scores were measured and are not shown in a table: {names} (results.csv).",
            len(names),
            names=listed(names, NAMED),
        )
    ]


def several_names(results: Results) -> list[Said]:
    """The recipes that sections show under several names."""
    names: dict[tuple[str, ...], dict[str, None]] = {}
    for row in (row for section in results.grid.sections for row in section.rows):
        names.setdefault(tuple(row.cells), {})[row.label] = None
    several = [" = ".join(labels) for cells, labels in names.items() if cells and len(labels) > 1]
    return [_("One recipe under several names: {names}.", names=listed(several))] if several else []
