"""What the tables of a section leave out: how its seeds were chosen, how it was tested, which rows stand apart."""

from collections.abc import Iterator

from reports.compare import Section
from reports.guards.section_cells import listed
from reports.markdown import heading, unit, with_unit
from reports.messages import Said, _, joined, n_
from reports.rows import ANY
from reports.statistics import POWER

STOPPED = {
    "decided": _("Seeds were added until every comparison was decided"),
    "most seeds": _("Seeds were added up to the most that were allowed"),
    "budget": _("The budget ended before every comparison was decided"),
    "not comparable": _("No further seeds were added, for what is not decided cannot be compared"),
    "nothing to compare": _("No further seeds were added, for nothing is compared"),
    "": _("It is not finished: seeds are still to be added"),
}
BY_TEXT, BY_SEED = _("seed and text"), _("seed")
PARTLY = _("seed, and by text where each text is known")


def sentences(section: Section) -> list[Said]:
    return [*stopped(section), *tested(section)]


def stopped(section: Section) -> Iterator[Said]:
    """Of a study that stops by itself: with how many seeds it did, and why."""
    if section.most_seeds is None:
        return
    counts, why = [score.seeds for score in section.scores], STOPPED[section.ended]
    few, many = min(counts), max(counts)
    between: Said = _("{few} to {many}", few=few, many=many) if few < many else str(few)
    yield _(
        "{why}: {between} a configuration. A difference is over the seeds that both have.", why=why, between=between
    )


def tested(section: Section) -> Iterator[Said]:
    """How a section was tested, and what it could not have found."""
    by_text = [compared.by_text for _, compared in section.compared if compared.tested]
    if not by_text:
        return
    how = BY_TEXT if all(by_text) else PARTLY if any(by_text) else BY_SEED
    yield n_(
        "± of a difference: half of its 95 % interval, paired by {how}.",
        "± of a difference: half of a 95 % interval for all {count} comparisons together, paired by {how}.",
        section.hypotheses,
        how=how,
    )
    margins = {score.value: score.margin for score, _ in section.compared if score.margin is not None}
    if margins:
        sizes = [_("{size} in {name}", size=shown(size, value), name=heading(value)) for value, size in margins.items()]
        yield _("Differences below {margins} are too small to matter.", margins=joined(sizes, _(", ")))
    limits = [
        _("{size} in {name}", size=shown(size, value), name=heading(value))
        for value in section.values
        if (size := section.detectable.get(value)) is not None and possible(size, value)
    ]
    if limits:
        yield _(
            "Smallest difference that is found with probability {power}: {limits}.",
            power=f"{POWER:.2f}",
            limits=joined(limits, _("; ")),
        )
    if section.most_seeds is not None:
        yield _(
            "It looked several times, at up to {seeds} seeds; the intervals hold for all looks.",
            seeds=section.most_seeds,
        )


def shown(size: float, value: str) -> Said:
    return with_unit(f"{unit(value) * size:.2g}", unit(value) > 1)


def possible(size: float, value: str) -> bool:
    """A share cannot differ by more than one."""
    return unit(value) == 1 or size <= 1


def unequal_note(section: Section) -> list[Said]:
    """Rows that vary from seed to seed otherwise than the rest, so that nothing is pooled with them."""
    if not section.unequal:
        return []
    names = listed(section.unequal)
    return [
        _(
            "From seed to seed these comparisons seem to vary otherwise than the rest, so that their own "
            "spread counts beside that of all: {names}. They need more seeds.",
            names=names,
        )
    ]


def same_note(section: Section) -> list[Said]:
    """Vectors that are the same whatever trained, so that all configurations are one row."""
    labels = [row.label for row in section.rows]
    kinds = [label.removeprefix(f"{ANY} · ") for label in labels if label.startswith(f"{ANY} · ")]
    if not kinds:
        return []
    names = listed(kinds)
    return [
        _("Nothing that these configurations train reaches these vectors, which are one row: {names}.", names=names)
    ]
