"""Sentences below the tables: how seeds were chosen and tested, limits of a finding, how to read the numbers."""

import json
import math
from collections.abc import Iterator
from typing import Any

from contrastive.config.experiment import SETTINGS
from reports.compare import RowScore, Section
from reports.guards.rows import Guard, listed
from reports.guards.same import AS_RUN, DATA, path
from reports.markdown import heading, score_text, symbol, unit, with_unit
from reports.messages import N_, _, n_
from reports.provenance import cells_by_data, counts_of
from reports.rows import ANY, Row, references_of, shown_values
from reports.statistics.power import POWER
from reports.study import Results
from reports.tables import is_negligible, verdict_text

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
BY_TEXT, BY_SEED = N_("seed and example"), N_("seed")
PARTLY = N_("seed, and by example where results of single examples are stored")


def answer(section: Section) -> str:
    """Return each verdict with its rows, in the first score that was tested; empty if none was."""
    value = next(iter(section.tested), "")
    by_verdict = dict[str, list[str]]()
    for score in [section.score_of[row.number, value] for row in section.ordered if value]:
        if score.comparison and score.comparison.tested:
            by_verdict.setdefault(verdict_text(score.verdict, is_negligible(score)), []).append(score.row.label)
    against = {comparison.against.label for _score, comparison in section.comparisons}
    said = [
        n_("{rows} is {verdict}", "{rows} are {verdict}", len(rows), rows=listed(rows), verdict=verdict)
        for verdict, rows in by_verdict.items()
    ]
    if not said:
        return ""
    beside = (
        _("Compared with {baseline}", baseline=against.pop())
        if len(against) == 1
        else _("Compared with their baselines")
    )
    return _("{beside}: {verdicts}.", beside=beside, verdicts=_("; ").join(said))


def sentences(section: Section) -> list[str]:
    """Return the sentences below a section's tables."""
    notes = (stopped, tested, ragged_note, unequal_note, same_note)
    return [sentence for note in notes for sentence in note(section)]


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
        "{why}: {between} per configuration. A difference uses the seeds up to the last look that both rows completed.",
        why=_(why),
        between=between,
    )


def tested(section: Section) -> Iterator[str]:
    """Yield how a section was tested, its margins and the smallest differences it could have found."""
    by_text = [compared.by_text for _, compared in section.comparisons if compared.tested]
    if not by_text:
        return
    yield how_paired(section, by_text)
    margins = {score.value: score.margin for score, _ in section.comparisons if score.margin is not None}
    if margins:
        sizes = [
            _("{size} in {name}", size=size_text(size, value), name=heading(value)) for value, size in margins.items()
        ]
        yield _("Equivalence margin: {margins}.", margins=_(", ").join(sizes))
    limits = [
        _("{size} in {name}", size=size_text(size, value), name=heading(value))
        for value in section.values
        if (size := section.detectable.get(value)) is not None and possible(size, value)
    ]
    if limits:
        yield _(
            "With {power} % power, a study like this detects true differences of {limits}.",
            power=f"{100 * POWER:.0f}",
            limits=_("; ").join(limits),
        )
    if section.most_seeds is not None:
        yield _(
            "The rows were tested several times, with up to {seeds} seeds; the intervals hold for all these "
            "tests together.",
            seeds=section.most_seeds,
        )


def how_paired(section: Section, by_text: list[bool]) -> str:
    """Say by what rows are paired."""
    if not section.paired:
        return _("The rows are not paired (Welch's t, Bonferroni). Pairing by seed may narrow the intervals.")
    how = BY_TEXT if all(by_text) else PARTLY if any(by_text) else BY_SEED
    return _("Differences are paired by {how}.", how=_(how))


def size_text(size: float, value: str) -> str:
    return with_unit(f"{unit(value) * size:.2g}", unit(value) > 1)


def possible(size: float, value: str) -> bool:
    """Return whether a difference of this size can occur: shares differ by at most 1."""
    return unit(value) == 1 or size <= 1


def ragged_note(section: Section) -> list[str]:
    """Name the rows that were compared by part of their runs, or by all runs without pairing, for want of seeds."""
    if section.most_seeds is not None or not section.paired:
        return []
    tested = [(score.row, each) for score, each in section.comparisons if each.tested]
    shared = [row.label for row, each in tested if each.paired and {*row.seeds} != {*each.against.seeds}]
    unpaired = [row.label for row, each in tested if not each.paired]
    sentences = {
        N_(
            "Compared only at the seeds that both rows have, so the difference is not that of the means above: {names}."
        ): shared,
        N_(
            "Compared over all runs without pairing, since too few seeds are shared (Welch's t, Bonferroni): {names}."
        ): unpaired,
    }
    return [_(text, names=listed([*dict.fromkeys(names)])) for text, names in sentences.items() if names]


def unequal_note(section: Section) -> list[str]:
    """Name the rows whose spread between seeds differs from the others', so that it is not only pooled."""
    sentence = _(
        "In these comparisons the spread between seeds seems to differ from that of the other rows, so their "
        "own spread is used as well: {names}. They need more seeds.",
        names=listed(section.unequal),
    )
    return [sentence] if section.unequal else []


def same_note(section: Section) -> list[str]:
    """Name the vectors that training does not change, so that all configurations share one row."""
    labels = [row.label for row in section.rows]
    kinds = [label.removeprefix(f"{ANY} · ") for label in labels if label.startswith(f"{ANY} · ")]
    if not kinds:
        return []
    return [
        _("Training does not change these vectors, so all configurations share one row: {names}.", names=listed(kinds))
    ]


TRAINED_ON = {
    frozenset({False}): N_("All seeds train on the same examples: the conclusions hold for these training examples."),
    frozenset({True}): N_(
        "Each seed draws its own training examples: the conclusions hold for training examples drawn from this data."
    ),
    frozenset({False, True}): N_(
        "With data.resample each seed draws its own training examples; without it all seeds train on the same "
        "examples, and the conclusions hold for these."
    ),
}
NAMED = 8  # most scores that a sentence names


def reading(results: Results) -> list[str]:
    """Explain how to read the numbers of this report."""
    rows = [row for section in results.study.sections for row in section.rows]
    seeds = max((len(row.seeds) for row in rows), default=0)
    if seeds == 1:
        return [
            _(
                "One seed per configuration: the spread between seeds is unknown, so no difference can be "
                "tested. Nothing is ranked, and nothing is bold."
            ),
            *standard_errors(results),
        ]
    return [
        _(
            "▲ better, ▼ worse: the interval of the difference to the baseline excludes 0. = equivalent: it "
            "is within the equivalence margin, declared too small to matter, with or without 0. ? undecided: "
            "neither. The intervals of a section hold for all its comparisons together."
        ),
        _(
            "Bold: no other row was shown to be better. Nothing is bold if this holds for every row, or if a "
            "note forbids ranking."
        ),
        _("Differences are computed before rounding."),
        _(
            "comparisons.csv has p-values, the numbers of examples that only one of two models gets right, and "
            "the probability of improvement."
        ),
        *([] if results.study.foreign else [_(TRAINED_ON[frozenset(row.drawn for row in rows) or frozenset({False})])]),
        *standard_errors(results),
    ]


def standard_errors(results: Results) -> list[str]:
    """Give the standard error of an accuracy that the number of test texts implies, for each data set."""
    if "test.accuracy" not in results.scores:
        return []
    sentences_by_data = list[str]()
    for data, cells in cells_by_data(results).items():
        count = sum(counts_of(results, cells).get("test", {}).values())
        mean = float(results.scores["test.accuracy"].reindex(cells).mean())
        if count and 0 <= mean <= 1:
            size = f"{100 * (mean * (1 - mean) / count) ** 0.5:.1f}"
            name = _(" of {data}", data=data) if data else ""
            sentences_by_data.append(
                _(
                    "On {count} test examples{name}, an accuracy has a standard error of {size} points from the "
                    "choice of examples alone.",
                    count=count, name=name, size=size,
                )
            )  # fmt: skip
    return sentences_by_data


def not_shown(results: Results) -> list[str]:
    """Name the scores that were measured and that no table shows."""
    shown = {value for section in results.study.sections for value in shown_values(section, results)}
    measured = [name for name in results.score_names if "/" not in name]
    names = [heading(name) for name in measured if name not in shown]
    sentence = n_(
        "Measured but not shown in a table: {names} (results.csv).",
        "{count} scores were measured but are not shown in a table: {names} (results.csv).",
        len(names),
        names=listed(names, NAMED),
    )
    return [sentence] if names else []


def several_names(results: Results) -> list[str]:
    """Name the configurations that sections show under several names."""
    names: dict[tuple[str, ...], dict[str, None]] = {}
    for row in (row for section in results.study.sections for row in section.rows):
        names.setdefault(tuple(row.cells), {})[row.label] = None
    several = [" = ".join(labels) for cells, labels in names.items() if cells and len(labels) > 1]
    return [_("One configuration under several names: {names}.", names=listed(several))] if several else []


FEWEST = 3  # values of an axis: with two, the best one is always at an end
LEAST = {"k": 1.0}  # smallest possible value of a setting; 0 for all others


def tuning(section: Section, results: Results) -> list[Guard]:
    """Warn of an axis that is best at its edge, a learning rate shared by unlike rows, a better reference."""
    value = next(iter(section.tested), "")
    scores = [score for score in section.scores if score.value == value and not score.row.variant]
    scores = [score for score in scores if math.isfinite(score.mean) and score.row.recorded.settings]
    return [*at_the_edge(section, scores), *not_tuned(scores), *below_reference(scores, section, results)]


def at_the_edge(section: Section, scores: list[RowScore]) -> Iterator[Guard]:
    """Warn if the best rows have an axis's largest or smallest tried value and a further one is possible."""
    bold = [score.row for score in scores if score.bold]
    best = bold or highest(scores)
    if not best or len(best) == len(scores):
        return
    for name in dict.fromkeys(name for row in best for name in row.recorded.axes):
        numbers = {score.row.number: axis_number(score.row, name) for score in scores}
        tried = sorted({number for number in numbers.values() if number is not None})
        ends = {numbers[row.number] for row in best}
        if len(tried) < FEWEST or len(ends) > 1:
            continue
        (end,) = ends
        if (end == tried[-1] and math.isfinite(tried[-1])) or (end == tried[0] and tried[0] > LEAST.get(name, 0)):
            text = N_("Best at the edge of the tried range: {best} ({axis} {tried}).")
            if not bold:
                text = N_("Best mean, not shown to be better, at the edge of the tried range: {best} ({axis} {tried}).")
            words = _(
                text,
                best=listed([row.label for row in best]),
                axis=_("blocks") if name == "tune" else symbol(name),
                tried=", ".join(f"{number:g}" for number in tried),
            )
            yield Guard("edge", words)


def highest(scores: list[RowScore]) -> list[Row]:
    """Return the rows with the best mean of each data set."""
    gains = [(score.row, score.mean if score.higher else -score.mean) for score in scores]
    best = dict[str, float]()
    for row, gain in gains:
        best[row.data] = max(gain, best.get(row.data, -math.inf))
    return [row for row, gain in gains if gain == best[row.data]]


def axis_number(row: Row, name: str) -> float | None:
    """Return a setting as a number, for `tune` the number of tuned blocks; None if it is no number."""
    if name not in SETTINGS or name in AS_RUN or name in DATA:
        return None
    value: Any = json_or_text((row.recorded.settings or {}).get(path(name)))
    if name == "tune":
        tune = value if isinstance(value, dict) else {}
        blocks = tune.get("last_blocks")
        return None if tune.get("lora") else math.inf if blocks is None else float(blocks)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def json_or_text(text: str | None) -> Any:
    try:
        return json.loads(text or "null")
    except ValueError:
        return text


def not_tuned(scores: list[RowScore]) -> Iterator[Guard]:
    """Warn if rows of several losses or encoders, or with and without adapters, share the one learning rate that they
    have."""
    rates, labels = dict[tuple[object, ...], set[str]](), dict[tuple[object, ...], list[str]]()
    for row in (score.row for score in scores):
        settings = row.recorded.settings or {}
        tune = json_or_text(settings.get("encoder.tune"))
        tune = tune if isinstance(tune, dict) else {}
        if tune.get("last_blocks") != 0:  # if only the head trains, the encoder has no learning rate
            kind = (settings.get("objective.loss"), settings.get("encoder.model"), bool(tune.get("lora")))
            labels.setdefault(kind, []).append(row.label)
            rates.setdefault(kind, set()).add(settings.get("training.encoder_lr", ""))
    by_rate = dict[str, list[list[str]]]()  # of the kinds that have one rate
    for each, tried in rates.items():
        if len(tried) == 1:
            by_rate.setdefault(next(iter(tried)), []).append(labels[each])
    for rate, groups in by_rate.items():
        if len(groups) > 1:
            rows = listed([label for group in groups for label in group])
            yield Guard("not tuned", _("Not tuned: {rows} share one learning rate ({rate}).", rows=rows, rate=rate))


def below_reference(scores: list[RowScore], section: Section, results: Results) -> Iterator[Guard]:
    """Warn if a reference, such as TF-IDF, is better than rows."""
    if not any(comparison.tested for _score, comparison in section.comparisons):
        return
    for name, reference in references_of(section.recorded, results).items():
        below = [
            score
            for score in scores
            if score.value in reference and score.higher is not None
            if (reference[score.value] - score.mean) * (1 if score.higher else -1) > 0
        ]
        if below:
            value = below[0].value
            places = 1 if unit(value) > 1 else None
            rows = [f"{score.row.label} ({score_text(value, score.mean, places=places)})" for score in below]
            ours = f"{name} ({score_text(value, reference[value], places=places)})"
            text = N_("{reference} scores above {rows} (untested).")
            if len(below) == len(scores) > 1:
                best = max(below, key=lambda score: score.mean if score.higher else -score.mean)
                text = N_("{reference} scores above every row, even {rows} (untested).")
                rows = [f"{best.row.label} ({score_text(value, best.mean, places=places)})"]
            yield Guard("reference", _(text, reference=ours, rows=listed(rows)))
