"""Sentences of a report: the answer above a section's tables, how it was tested below them, how to read the numbers."""

from collections.abc import Iterator

from reports.compare import Section
from reports.markdown import heading, unit, with_unit
from reports.messages import N_, _, listed
from reports.rows import ANY
from reports.study import Results

STOPPED = {
    "decided": N_("Seeds were added until every comparison was decided"),
    "futile": N_("No further seeds were added: they are unlikely to decide the remaining comparisons"),
    "most seeds": N_("Seeds were added up to the allowed maximum"),
    "budget": N_("The budget ran out before every comparison was decided"),
    "not comparable": N_("No further seeds were added: the remaining rows cannot be compared"),
    "nothing to compare": N_("No further seeds were added: nothing is compared"),
    "": N_("The study is not finished: seeds are still to be added"),
}
OPEN_AGAIN = N_("Seeds were added until every comparison was decided; those of other sections left some open again")
DRAWN = N_(
    "Each seed draws its own training examples: the conclusions hold for training examples drawn from this data."
)
SHARED = N_("All seeds train on the same examples: the conclusions hold for these training examples.")


def sentences(section: Section) -> list[str]:
    """Return the sentences below a section's tables."""
    notes = (bold, stopped, tested, ragged_note, unequal_note, same_note)
    return [sentence for note in notes for sentence in note(section)]


def bold(section: Section) -> Iterator[str]:
    if any(score.bold for score in section.scores):
        yield _("Bold: the best row, and the next ones down to the first that was shown to be worse.")


def stopped(section: Section) -> Iterator[str]:
    """Yield, for a study that adds seeds, with how many it stopped and why."""
    if section.most_seeds is None:
        return
    is_open = any(score.verdict == "undecided" for score in section.scores)
    why = OPEN_AGAIN if section.ended == "decided" and is_open else STOPPED[section.ended]
    counts = [score.seeds for score in section.scores]
    few, many = min(counts), max(counts)
    between: str = _("{few} to {many}", few=few, many=many) if few < many else str(few)
    yield _(
        "{between} seeds per configuration. {why}. A difference uses the seeds up to the last look that both rows "
        "completed; its interval holds for all looks together.",
        why=_(why),
        between=between,
    )


def tested(section: Section) -> Iterator[str]:
    """Yield how a section was tested, and its margins."""
    by_text = [compared.by_text for _, compared in section.comparisons if compared.tested]
    if not by_text:
        return
    if not section.paired:
        yield _("The rows are not paired (Welch's t, Bonferroni). Pairing by seed may narrow the intervals.")
    elif all(by_text):
        yield _("Differences are paired by seed and example.")
    else:
        yield _("Differences are paired by seed.")
    margins = {score.value: score.margin for score, _ in section.comparisons if score.margin is not None}
    if margins:
        yield _("Equivalence margin: {margins}.", margins=_(", ").join(sizes(margins)))


def sizes(by_score: dict[str, float]) -> list[str]:
    """Format differences of scores: `0.5 points in accuracy (test)`."""
    return [
        _("{size} in {name}", size=with_unit(f"{unit(value) * size:.2g}", unit(value) > 1), name=heading(value))
        for value, size in by_score.items()
    ]


def ragged_note(section: Section) -> Iterator[str]:
    """Name the rows that were compared by part of their runs, or by all runs without pairing, for want of seeds."""
    if section.most_seeds is not None or not section.paired:
        return
    compared = [(score.row, comparison) for score, comparison in section.comparisons if comparison.tested]
    shared = [row.label for row, how in compared if how.paired and {*row.seeds} != {*how.against.seeds}]
    unpaired = [row.label for row, how in compared if not how.paired]
    if shared:
        yield _(
            "Compared only at the seeds that both rows have, so the difference is not that of the means above: "
            "{names}.",
            names=listed([*dict.fromkeys(shared)]),
        )
    if unpaired:
        yield _(
            "Compared over all runs without pairing, since too few seeds are shared (Welch's t, Bonferroni): {names}.",
            names=listed([*dict.fromkeys(unpaired)]),
        )


def unequal_note(section: Section) -> Iterator[str]:
    """Name the rows whose spread between seeds differs from the others': their variances are not only pooled."""
    if section.unequal:
        yield _(
            "In these comparisons the spread between seeds seems to differ from that of the other rows, so their "
            "own spread is used as well: {names}. They need more seeds.",
            names=listed(section.unequal),
        )


def same_note(section: Section) -> Iterator[str]:
    """Name the vectors that training does not change, so that all configurations share one row."""
    kinds = [row.variant.rstrip("/") for row in section.rows if row.label.startswith(f"{ANY} · ")]
    if kinds:
        yield _(
            "Training does not change these vectors, so all configurations share one row: {names}.", names=listed(kinds)
        )


def reading(results: Results) -> list[str]:
    """Explain how to read the numbers of this report."""
    rows = [row for section in results.study.sections for row in section.rows]
    if max((len(row.seeds) for row in rows), default=0) == 1:  # a guard of each section says so
        return []
    sentences = [
        _("Nothing is bold if no row was shown to be better than another, or if a note forbids ranking."),
        _("Differences are computed before rounding; comparisons.csv has their p-values."),
    ]
    if results.study.foreign is None and len({row.drawn for row in rows}) == 1:  # else the rows are named by it
        sentences.append(_(DRAWN if rows[0].drawn else SHARED))
    return sentences
