"""Guards of a section: cells that differ in more than its axes (settings, data, code, machines), and odd scores.

A difference that is the same for all rows of a seed does not bias their comparison, since rows are compared seed by
seed; it is still reported.
"""

import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pandas as pd

from contrastive.config import registry
from contrastive.config.experiment import PARTS, SETTINGS
from contrastive.config.scores import score_facts
from contrastive.runs.recorded import Provenance, RecordedSection
from reports.guards.rows import Guard, SectionCell, declared, grouped, listed, values_of, where
from reports.markdown import heading
from reports.messages import N_, _
from reports.study import Results

Key: TypeAlias = Callable[[SectionCell], Hashable]
Values: TypeAlias = Mapping[SectionCell, str]

FILES = {"source", "text", "label", "positive", "negative", "test", "validation"}
DATA = {*PARTS["data"].model_fields}
SIZELESS = {"alpha", "mlm_weight", "temperature", "beta", "sigma", "rate", "redundancy", "chunk", "k", "change",
            "dropout", "pooling", "max_length"}  # settings that add no parameters  # fmt: skip
SIZES = {*PARTS["encoder"].model_fields, *PARTS["objective"].model_fields, *DATA} - SIZELESS
FOLLOWING = {*PARTS["objective"].model_fields, "head_lr", "encoder_lr", "layer_decay"}  # may follow from the recipe
AS_RUN = {"threads", "processes"}  # compared by the values that the run used, not by the settings
OTHERS = 2  # deviating values that a sentence names


@dataclass(frozen=True)
class Same:
    """A check that `read` gives the same value in all cells; cells where it gives None are left out."""

    kind: str
    what: str
    read: Callable[[SectionCell], object]
    follows: frozenset[str] = (
        frozenset()
    )  # settings it may depend on: where they are axes, only equal ones are compared
    blocks: bool | None = True  # the guard's `blocks_ranking`; None: only if rows differ at one seed
    drawn: bool = False  # whether it depends on the training texts, which each seed may draw anew
    unless: str = ""  # the check is skipped if this setting is an axis


def recorded(read: Callable[[Provenance], object]) -> Callable[[SectionCell], object]:
    return lambda cell: read(cell.run.provenance) if cell.run.provenance else None


def split_counts(split: str) -> Callable[[SectionCell], object]:
    def read(provenance: Provenance) -> str | None:
        counts = provenance.class_counts.get(split)
        return None if counts is None else ", ".join(f"{count} {name}" for name, count in counts.items())

    return recorded(read)


SAME = (
    Same("data", N_("The data differs"), recorded(lambda p: (p.data_digest or "")[:12] or None),
         frozenset(FILES)),
    Same("test data", N_("The test examples differ"), split_counts("test"),
         frozenset(DATA - {"train", "max_length"})),
    Same("training data", N_("The training examples differ"), split_counts("train"),
         frozenset(DATA - {"max_length"}), drawn=True),
    Same("parameters", N_("The number of trained parameters differs between cells of one model"),
         recorded(lambda p: p.trained_parameters), frozenset(SIZES), drawn=True),
    Same("code", N_("The code differs"), recorded(lambda p: p.code), frozenset({"loss", "view", "source"})),
    Same("evaluation", N_("The evaluation settings differ"),
         lambda cell: cell.run.evaluation or None if cell.run.status == "finished" else None),
    Same("hardware", N_("The hardware differs"), recorded(lambda p: f"{p.hardware.device} ({p.hardware.cpu})"),
         blocks=None),
    Same("threads", N_("The number of threads differs"), recorded(lambda p: p.threads), blocks=None, unless="threads"),
    Same("processes", N_("The number of processes differs"), recorded(lambda p: p.processes), blocks=None,
         unless="processes"),
)  # fmt: skip


def same(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    axes = declared(section, results)
    for check in SAME:
        if check.unless not in axes:
            values = {cell: str(value) for cell in cells if (value := check.read(cell)) is not None}
            key = by({*check.follows} & axes)
            yield from differing(check.kind, _(check.what), values, by_draw(key) if check.drawn else key, check.blocks)


def differing(kind: str, what: str, values: Values, key: Key, blocks: bool | None = None) -> Iterator[Guard]:
    """Warn if cells with the same key have several values."""
    difference = first_difference(values, key)
    if difference is not None:
        groups = grouped(values, lambda cell: (cell.seed, key(cell))).values()
        confounded = any(len({values[cell] for cell in group}) > 1 for group in groups)
        end = (
            _("this may explain differences between rows") if confounded
            else _("at each seed it is the same for all rows")
        )  # fmt: skip
        words = _("{what}: {difference}; {end}.", what=what, difference=difference, end=end)
        yield Guard(kind, words, confounded if blocks is None else blocks)


def settings(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Warn of settings that differ and are no axis; some may differ between losses, views and other variants."""
    with_settings = [cell for cell in cells if cell.run.params]
    choices = {"loss", "view", "tune", *registry.variant_settings()}
    phrases = list[str]()
    for name in sorted(SETTINGS.keys() - declared(section, results) - AS_RUN):
        key = by(choices - {name}) if name in FOLLOWING else by(set())
        difference = first_difference({cell: cell.setting(path(name)) for cell in with_settings}, key)
        if difference is not None:
            phrases.append(_("{name} is {difference}", name=name, difference=difference))
    if len(phrases) > 3:
        phrases[3:] = [_("and {rest} more settings", rest=len(phrases) - 3)]
    if phrases:
        words = _(
            "The cells differ in settings that are not axes of this table: {settings}.",
            settings=_("; ").join(phrases),
        )
        yield Guard("settings", words, True)


def packages(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Warn of packages with several versions."""
    packages_of = {cell: cell.run.provenance.packages for cell in cells if cell.run.provenance}
    versions: dict[str, set[str]] = {}
    for name, version in (pair for installed in packages_of.values() for pair in installed.items()):
        versions.setdefault(name, set()).add(version)
    several = sorted(name for name, used in versions.items() if len(used) > 1)
    values = {
        cell: ", ".join(f"{name} {installed[name]}" for name in several)
        for cell, installed in packages_of.items()
        if installed.keys() >= {*several}
    }
    yield from differing("packages", _("Package versions differ"), values, by(set()))


def modules(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Warn of modules that differ between cells of several commits.

    Cells of different losses run different modules, so only modules that cells share are compared.
    """
    digests = {cell.run.provenance.code: cell for cell in cells if cell.run.provenance and cell.run.provenance.code}
    if len({cell.run.provenance.commit for cell in cells if cell.run.provenance and cell.run.provenance.code}) < 2:
        return
    by_module: dict[str, set[str]] = {}
    for cell in digests.values():
        for module, digest in results.code_files(cell.cell).items():
            by_module.setdefault(module, set()).add(digest)
    if changed := sorted(module for module, found in by_module.items() if len(found) > 1):
        words = _(
            "The cells were computed with different code: {names} changed between them.", names=listed(changed, 3)
        )
        yield Guard("code", words, True)


def path(name: str) -> str:
    """Return a setting's name in MLflow, such as `training.epochs`."""
    part = SETTINGS[name]
    return name if part == "objective" else f"{part}.{name}"


def by(names: set[str]) -> Key:
    """Return a key that groups cells with equal values of these settings."""
    paths = sorted(path(name) for name in names if name in SETTINGS)
    return lambda cell: tuple(cell.setting(name) for name in paths)


def by_draw(key: Key) -> Key:
    """Extend a key by the seed, for rows in which each seed draws its own training texts."""
    return lambda cell: (key(cell), cell.seed if cell.row.drawn else None)


def first_difference(values: Values, key: Key) -> str | None:
    """Describe the first group of cells with several values, as `a, but b in ce, seed 1`; None if there is no such."""
    if len(set(values.values())) < 2:
        return None
    for group in grouped(values, key).values():
        by_value = grouped(group, values.__getitem__)
        if len(by_value) > 1:
            usual, *others = sorted(by_value, key=lambda value: (-len(by_value[value]), value))
            phrases = [_("{value} in {where}", value=value, where=where(by_value[value])) for value in others[:OTHERS]]
            if len(others) > OTHERS:
                phrases.append(_("and {rest} more values", rest=len(others) - OTHERS))
            return _("{usual}, but {others}", usual=usual, others=_("; ").join(phrases))
    return None


CHECKS = (settings, same, packages, modules)


NEARLY = 1e-5  # tolerance for rounding at the ends of a range
ALARM = re.compile(r"(.+/)?[a-z]+\.collapsed")
TIMES = re.compile(r".*(_per_second|memory_mib|seconds)")  # scores that differ between runs of the same seed
SPLITS = ("test", "validation", "train")  # whose classes are counted


def measured_of(results: Results, cells: list[SectionCell]) -> pd.DataFrame:
    return results.measured[results.measured["cell"].isin({cell.cell for cell in cells})]


def out_of_range(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Warn of scores outside their range, and of scores that are not finite, in MLflow or in scores.json."""
    finished = {cell.cell: cell for cell in cells if cell.run.status == "finished"}
    scores = results.scores.reindex(list(finished))
    measured = measured_of(results, list(finished.values()))
    not_finite = measured[~np.isfinite(measured["value"].to_numpy(float))]
    wrong = {(name, cell) for name, cell in zip(not_finite["score"], not_finite["cell"], strict=True)}
    for name in results.score_names:
        (low, high), values = score_facts(name).limits, scores[name].to_numpy(float)
        outside = (values < low - NEARLY) | (values > high + NEARLY) | (np.abs(values) > 1e300)
        wrong |= {(name, cell) for cell in scores.index[outside]}
    if wrong:
        names = listed(sorted({name for name, _ in wrong}), 3)
        location = where([entry for cell, entry in finished.items() if any(cell == wrong_id for _, wrong_id in wrong)])
        words = _("Impossible values of {names}: {location}.", names=names, location=location)
        yield Guard("range", words, True)


def examples(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Warn if rows with the same data settings were measured on different test texts, or different numbers of them."""
    data_axes = declared(section, results) & FILES
    measured = measured_of(results, cells)
    values = set(section.show.table.values)
    counted = {
        (cell, name): int(count)
        for cell, name, count in measured[["cell", "score", "count"]].dropna().itertuples(index=False)
        if name in values
    }
    finished = [cell for cell in cells if cell.run.status == "finished"]
    marks = {cell.cell: results.marks(cell.cell) for cell in finished}
    splits = {f"{name.rpartition('/')[2].partition('.')[0]}.ids" for name in values}
    data = by(data_axes)
    for group in grouped(finished, lambda cell: (cell.row.data, data(cell))).values():
        unlike = {name for name in values if len({counted.get((c.cell, name)) for c in group} - {None}) > 1}
        unlike |= {ids for ids in splits if len({marks[c.cell].get(ids) for c in group} - {None}) > 1}
        if unlike:
            words = _("The rows were not measured on the same examples ({names} differ).", names=listed(sorted(unlike)))
            yield Guard("examples", words, True)
            return


def idle_seeds(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Warn of rows with the very same numbers at all seeds (times aside), where the seed does nothing."""
    columns = [name for name in results.scores.columns if not TIMES.fullmatch(name)]
    finished = [cell for cell in cells if cell.run.status == "finished" and cell.cell in results.scores.index]
    scores = results.scores.reindex([cell.cell for cell in finished], columns=columns).to_numpy(float)
    measured = [(cell, row) for cell, row in zip(finished, scores, strict=True) if np.isfinite(row).any()]
    finished, marks = [cell for cell, _ in measured], {id(cell): row.tobytes() for cell, row in measured}
    rows = grouped(finished, lambda cell: id(cell.row)).values()
    idle = [row for row in rows if len({c.cell for c in row}) > 1 and len({marks[id(c)] for c in row}) == 1]
    if idle:
        location = where([cell for row in idle for cell in row])
        words = _("All seeds give the same numbers, so the seed has no effect here: {location}.", location=location)
        yield Guard("idle seeds", words)


def collapsed(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Warn of cells whose vectors, or what a loss compares, are all the same, so that their scores measure nothing."""
    for name in filter(ALARM.fullmatch, results.scores.columns):
        embedding, _slash, split = name.removesuffix(".collapsed").rpartition("/")
        alarms = values_of(results, cells, name)
        if affected := [cell for cell in cells if alarms.get(cell.cell) == 1]:
            parts = {"location": where(affected), "split": split, "extra": f" ({embedding})" if embedding else ""}
            yield Guard("collapsed", _("{location}: all {split} embeddings{extra} have one direction", **parts))
    since = [cell for cell in cells if cell.run.provenance and cell.run.provenance.collapsed_since is not None]
    for step, affected in grouped(
        since, lambda cell: cell.run.provenance and cell.run.provenance.collapsed_since
    ).items():
        words = _(
            "{location}: from step {step} on, the vectors, or those that the loss compares, are nearly all the same",
            location=where(affected),
            step=step,
        )
        yield Guard("collapsed", words)


def redundant_scores(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Warn if a table has both ARI and NMI where both follow from the accuracy of k-means."""
    values = [value for value in section.show.table.values if value.endswith((".ari", ".nmi"))]
    units = [cell_units for cell in cells if (cell_units := results.units.get(cell.cell))]
    if len(values) > 1 and units and all(cell_units.get(value) for cell_units in units for value in values):
        words = _(
            "There are two balanced classes: ARI ≈ (2a − 1)² and NMI ≈ 1 − H(a) both follow from the "
            "accuracy a of k-means. They are one number, not two."
        )
        yield Guard("redundant", words)


def chance(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Warn of rows whose mean accuracy is not above that of always predicting the largest class."""
    rows = grouped([cell for cell in cells if cell.run.status == "finished"], lambda cell: id(cell.row))
    guesses = [value for value in section.show.table.values if score_facts(value).guessed]
    for value in (value for value in guesses if value.partition(".")[0] in SPLITS):
        accuracies = values_of(results, cells, value)
        low = []
        for row in rows.values():
            values = [accuracies[cell.cell] for cell in row if cell.cell in accuracies]
            largest = [share for cell in row if (share := largest_class(cell, value.partition(".")[0]))]
            if values and largest and sum(values) / len(values) <= largest[0]:
                low += row
        if low:
            words = _(
                "{score} is not higher than always predicting the largest class: {location}.",
                score=heading(value), location=where(low, seeds=False),
            )  # fmt: skip
            yield Guard("chance", words)


def largest_class(cell: SectionCell, split: str) -> float:
    """Return the share of the largest class among a split's texts; 0 if the counts are unknown."""
    counts = cell.run.provenance.class_counts.get(split, {}) if cell.run.provenance else {}
    return max(counts.values(), default=0) / max(1, sum(counts.values()))


SCORE_CHECKS = (out_of_range, examples, idle_seeds, collapsed, redundant_scores, chance)
