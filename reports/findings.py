"""What can be concluded, in sentences made of the statistics and of nothing else."""

import math
from collections.abc import Iterator, Sequence

from reports.compare import Comparison, RowScore, Section
from reports.guards.section_cells import listed
from reports.markdown import MARKDOWN, Markup, heading, number, probability, signed, symbol
from reports.messages import Message, Said, _, joined, n_
from reports.rows import ANY
from reports.section_effects import Effect
from reports.statistics import ALPHA, POWER
from reports.verdicts import DECIDED

Compared = tuple[RowScore, Comparison]


def findings(section: Section, effects: Sequence[Effect], to: Markup = MARKDOWN) -> list[Said]:
    """Of one section: what was decided against its baseline, what was not and what would decide it, which are tied,
    which axes matter."""
    decided = [pair for pair in section.compared if pair[0].verdict in DECIDED]
    undecided = [pair for pair in section.compared if pair[0].verdict == "undecided"]
    return [
        *stopped(section),
        *told_or_counted(decided, [decided_sentence(*pair, to) for pair in decided], section, to),
        *axes(effects, to),
        *told_or_counted(undecided, [undecided_sentence(*pair, to) for pair in undecided], section, to),
        *counted([pair for pair in section.compared if not pair[1].tested], section, to),
        *ties(section, to),
    ]


MOST = 10  # comparisons of a section that are told one by one
STOPPED = {
    "decided": _("seeds were added until every comparison was decided"),
    "most seeds": _("seeds were added up to the most that were allowed"),
    "budget": _("the budget ended before every comparison was decided"),
    "not comparable": _("no further seeds were added, for what is not decided cannot be compared"),
    "nothing to compare": _("no further seeds were added, for nothing is compared"),
    "": _("it is not finished: seeds are still to be added"),
}


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


def told_or_counted(some: list[Compared], sentences: list[Said], section: Section, to: Markup) -> list[Said]:
    return sentences if len(sentences) <= MOST else list(counted(some, section, to))


def decided_sentence(score: RowScore, compared: Comparison, to: Markup) -> Said:
    name, label, against = heading(score.value, to), to.text(score.row.label), to.text(compared.against.label)
    ours, theirs = number(score.mean), number(score.mean - compared.difference)
    size = with_interval(compared)
    if score.verdict == "equivalent":
        little, limit = LITTLE[compared.side], f"{score.margin:g}"
        return _(
            "{label} and {against} are equivalent in {name}: the difference, {size}, lies within ± {limit}, "
            "which was declared too small to matter{little}.",
            label=label,
            against=against,
            name=name,
            size=size,
            limit=limit,
            little=little,
        )
    said = {
        "better": _("{label} is better than {against} in {name}: {ours} against {theirs}, a difference of {size}."),
        "worse": _("{label} is worse than {against} in {name}: {ours} against {theirs}, a difference of {size}."),
    }[score.verdict]
    return said.of(label=label, against=against, name=name, ours=ours, theirs=theirs, size=size)


LITTLE = {
    1: _("; it is better, by less than matters"),
    0: _(""),
    -1: _("; it is worse, by less than matters"),
}


def undecided_sentence(score: RowScore, compared: Comparison, to: Markup) -> Said:
    name, label, against = heading(score.value, to), to.text(score.row.label), to.text(compared.against.label)
    needs = what_decides(compared)
    return _(
        "undecided is {label} against {against} in {name}: {compared}. {needs}",
        label=label,
        against=against,
        name=name,
        compared=with_interval(compared),
        needs=needs,
    )


def what_decides(compared: Comparison) -> Said:
    """Seeds or test texts, if the difference is the one that is seen."""
    said, needs = list[Message](), compared.needs
    if needs and needs.seeds is not None:
        minutes = compared.needs_seconds / 60
        seeds = _("{seeds} seeds", seeds=needs.seeds)
        more = _("{seeds} ({minutes} more minutes of training)", seeds=seeds, minutes=f"{minutes:.1f}")
        said.append(more if math.isfinite(minutes) else seeds)
    if needs and needs.texts is not None:
        said.append(_("{texts} test texts", texts=needs.texts))
    if not said:
        return _("Not even 64 seeds and 100 times the test texts would decide a difference of this size.")
    both = _(" together with ") if needs and needs.together else _(" or ")
    return _("If the difference is the one seen, {needs} would decide it.", needs=joined(said, both))


def with_interval(compared: Comparison) -> str:
    return f"{signed(compared.difference)} ± {number(compared.half_width)}"


KINDS = {
    "better": _("better than their baseline are"),
    "worse": _("worse than their baseline are"),
    "equivalent": _("equivalent to their baseline are"),
    "undecided": _("undecided are"),
    "not comparable": _("the notes above the table forbid"),
    "no results": _("there are no results at the same seeds for"),
    "one seed": _("there is one seed, so that no difference can be called real, in"),
    "no spread": _("seeds that do not differ leave nothing to test with in"),
}


def counted(some: Sequence[Compared], section: Section, to: Markup) -> Iterator[Said]:
    """One sentence a verdict, of all scores."""
    for kind, said in KINDS.items():
        counts = []
        for value in dict.fromkeys(score.value for score, _compared in some):
            count = sum(score.value == value and kind_of(compared) == kind for score, compared in some)
            total = sum(score.value == value for score, _compared in section.compared)
            if count:
                counts.append(
                    n_(
                        "{some} of {count} comparison in {name}",
                        "{some} of {count} comparisons in {name}",
                        total,
                        some=count,
                        name=heading(value, to),
                    )
                )
        if counts:
            yield _("{said} {counts}.", said=said, counts=joined(counts, _(", ")))


def kind_of(compared: Comparison) -> str:
    """Its verdict; of one that was forbidden, whether there was anything to compare."""
    return "no results" if compared.verdict == "not comparable" and compared.seeds == 0 else compared.verdict


def ties(section: Section, to: Markup) -> Iterator[Said]:
    """How many configurations are tied with the best: where all are, the table ranks nothing."""
    counts = []
    for value in section.pairs:
        own = [score.bold for score in section.scores if score.value == value and score.tested]
        name = heading(value, to)
        counts.append(_("{tied} of {all} configurations in {name}", tied=sum(own), all=len(own), name=name))
    if counts:
        yield _("tied with the best are {counts}.", counts=joined(counts, _(", ")))


def axes(effects: Sequence[Effect], to: Markup) -> Iterator[Said]:
    for effect in effects:
        if effect.p < ALPHA:
            name, factors = heading(effect.value, to), " × ".join(to.text(symbol(f)) for f in effect.factors)
            share, p = f"{100 * effect.share:.1f}", equals(effect.p)
            yield _(
                "{factors} explains {share} % of the variance of {name} ({p}).",
                factors=factors,
                share=share,
                name=name,
                p=p,
            )


def equals(value: float) -> str:
    text = probability(value)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


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


BY_TEXT = _("seed and text")
BY_SEED = _("seed")
PARTLY = _("seed, and by text where each text is known")


def tested(section: Section, to: Markup = MARKDOWN) -> list[Said]:
    """How a section was tested, and what it could not have found: below its tables."""
    by_text = [compared.by_text for _, compared in section.compared if compared.tested]
    if not by_text:
        return []
    how = BY_TEXT if all(by_text) else PARTLY if any(by_text) else BY_SEED
    sizes = {value: section.detectable.get(value) for value in section.values}
    limits = joined(
        (
            _("{size} in {name}", size=number(size), name=heading(value, to))
            for value, size in sizes.items()
            if size is not None
        ),
        _("; "),
    )
    said = n_(
        "Differences to the baseline, paired by {how}; their intervals hold for all {count} comparison together with "
        "{sure}. Found with probability {power}: {limits}.",
        "Differences to the baseline, paired by {how}; their intervals hold for all {count} comparisons together with "
        "{sure}. Found with probability {power}: {limits}.",
        section.hypotheses,
        how=how,
        sure=f"{100 * (1 - ALPHA):.0f} %",
        power=f"{POWER:.2f}",
        limits=limits,
    )
    if section.most_seeds is None:
        return [said]
    looks = _(
        "It looked several times, at up to {seeds} seeds; the intervals hold for all looks.", seeds=section.most_seeds
    )
    return [joined([said, looks], _(" "))]
