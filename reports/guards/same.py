"""What must be the same in all cells of a section, beside its axes: settings, data, code, packages and machines.

A difference that is the same for all rows of a seed leaves their comparison alone, since rows are compared seed by
seed; it is reported all the same.
"""

import math
import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pandas as pd

from contrastive.config import registry
from contrastive.config.experiment import PARTS, SETTINGS
from contrastive.runs.recorded import Provenance, RecordedSection
from reports.guards.rows import Guard, SectionCell, declared, grouped, listed, values_of, where
from reports.load import SCORE, Results
from reports.markdown import heading
from reports.messages import Said, _, joined

Key: TypeAlias = Callable[[SectionCell], Hashable]
Values: TypeAlias = Mapping[SectionCell, str]

FILES = {"source", "text", "label", "positive", "negative", "test", "validation"}
DATA = {*PARTS["data"].model_fields}
SIZELESS = {"alpha", "mlm_weight", "temperature", "beta", "sigma", "rate", "redundancy", "chunk", "k", "change",
            "dropout", "pooling", "max_length"}  # settings that add no parameter  # fmt: skip
SIZES = {*PARTS["encoder"].model_fields, *PARTS["objective"].model_fields, *DATA} - SIZELESS
FOLLOWING = {*PARTS["objective"].model_fields, "head_lr", "encoder_lr", "layer_decay"}  # may follow from the recipe
AS_RUN = {"threads", "processes"}  # compared as they were, not as they were asked for
OTHERS = 2  # further values that a sentence names


@dataclass(frozen=True)
class Same:
    """Compare `read` between cells that are alike in the axes of `follows`; cells where it reads None are left out."""

    kind: str
    what: Said
    read: Callable[[SectionCell], object]
    follows: frozenset[str] = frozenset()  # settings that it may follow from, where they are axes
    blocks: bool | None = True  # None: only where rows differ at one seed
    drawn: bool = False  # whether it follows from the training texts, which each seed may draw
    unless: str = ""  # a setting: not compared where that is an axis


def noted(read: Callable[[Provenance], object]) -> Callable[[SectionCell], object]:
    return lambda cell: read(cell.provenance) if cell.provenance else None


def split_counts(split: str) -> Callable[[SectionCell], object]:
    def read(provenance: Provenance) -> str | None:
        counts = provenance.class_counts.get(split)
        return None if counts is None else ", ".join(f"{count} {name}" for name, count in counts.items())

    return noted(read)


SAME = (
    Same("data", _("The data is not the same"), noted(lambda p: (p.data_digest or "")[:12] or None),
         frozenset(FILES)),
    Same("test data", _("The test texts are not the same"), split_counts("test"),
         frozenset(DATA - {"train", "max_length"})),
    Same("training data", _("The training texts are not the same"), split_counts("train"),
         frozenset(DATA - {"max_length"}), drawn=True),
    Same("parameters", _("The number of trained parameters differs between cells of one model"),
         noted(lambda p: p.trained_parameters), frozenset(SIZES), drawn=True),
    Same("code", _("The code is not the same"), noted(lambda p: p.code), frozenset({"loss", "view", "source"})),
    Same("evaluation", _("The cells were measured by different settings"),
         lambda cell: cell.evaluation or None if cell.status == "finished" else None),
    Same("hardware", _("The hardware differs"), noted(lambda p: f"{p.hardware.device} ({p.hardware.cpu})"),
         blocks=None),
    Same("threads", _("The number of threads differs"), noted(lambda p: p.threads), blocks=None, unless="threads"),
    Same("processes", _("The number of processes differs"), noted(lambda p: p.processes), blocks=None,
         unless="processes"),
)  # fmt: skip


def same(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    axes = declared(section, results)
    for row in SAME:
        if row.unless not in axes:
            values = {cell: str(value) for cell in cells if (value := row.read(cell)) is not None}
            alike = by({*row.follows} & axes)
            yield from differing(row.kind, row.what, values, of_one_draw(alike) if row.drawn else alike, row.blocks)


def differing(kind: str, what: Said, values: Values, alike: Key, blocks: bool | None = None) -> Iterator[Guard]:
    difference = first_difference(values, alike)
    if difference is not None:
        confounded = within_seeds(values, alike)
        end = (
            _("differences between rows may come from that") if confounded
            else _("it is the same for all rows of a seed")
        )  # fmt: skip
        said = _("{what}: {difference}; {end}.", what=what, difference=difference, end=end)
        yield Guard(kind, said, confounded if blocks is None else blocks)


def settings(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Settings that are no axis; some may follow from the choice of a recipe."""
    recorded, choices = [cell for cell in cells if cell.params], {"loss", "view", "tune", *registry.variant_settings()}
    said = list[Said]()
    for name in sorted(SETTINGS.keys() - declared(section, results) - AS_RUN):
        alike = by(choices - {name}) if name in FOLLOWING else by(set())
        difference = first_difference({cell: cell.setting(path(name)) for cell in recorded}, alike)
        if difference is not None:
            said.append(_("{name} is {difference}", name=name, difference=difference))
    if len(said) > 3:
        said[3:] = [_("and {rest} more settings", rest=len(said) - 3)]
    if said:
        words = _(
            "The cells differ in settings that are no axis of this table: {settings}.", settings=joined(said, _("; "))
        )
        yield Guard("settings", words, True)


def packages(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """A package that a run does not note is not another one: the list of those that are noted has grown."""
    held = {cell: cell.provenance.packages for cell in cells if cell.provenance and cell.provenance.packages}
    versions: dict[str, set[str]] = {}
    for name, version in (pair for own in held.values() for pair in own.items()):
        versions.setdefault(name, set()).add(version)
    several = sorted(name for name, used in versions.items() if len(used) > 1)
    values = {
        cell: ", ".join(f"{name} {own[name]}" for name in several)
        for cell, own in held.items()
        if own.keys() >= {*several}
    }
    yield from differing("packages", _("Package versions differ"), values, by(set()))


def modules(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Cells of other losses run other code; where commits differ, the modules that they share are compared."""
    digests = {cell.provenance.code: cell for cell in cells if cell.provenance and cell.provenance.code}
    if len({cell.provenance.commit for cell in cells if cell.provenance and cell.provenance.code}) < 2:
        return
    held: dict[str, set[str]] = {}
    for cell in digests.values():
        for module, digest in results.code_files(cell.cell).items():
            held.setdefault(module, set()).add(digest)
    if changed := sorted(module for module, found in held.items() if len(found) > 1):
        words = _("The cells were computed by different code: {names} changed between them.", names=listed(changed, 3))
        yield Guard("code", words, True)


def path(name: str) -> str:
    """A setting as MLflow names it."""
    part = SETTINGS[name]
    return name if part == "objective" else f"{part}.{name}"


def by(names: set[str]) -> Key:
    """Group cells with the same of these settings."""
    paths = sorted(path(name) for name in names if name in SETTINGS)
    return lambda cell: tuple(cell.setting(name) for name in paths)


def of_one_draw(alike: Key) -> Key:
    """Group cells that are alike and train on the same texts, where each seed draws its own."""
    return lambda cell: (alike(cell), cell.seed if cell.row.drawn else None)


def first_difference(values: Values, alike: Key) -> Said | None:
    """`a, but b in ce, seed 1` for the first group of cells that should have one value and have several."""
    if len(set(values.values())) < 2:
        return None
    for group in grouped(values, alike).values():
        by_value = grouped(group, values.__getitem__)
        if len(by_value) > 1:
            usual, *others = sorted(by_value, key=lambda value: (-len(by_value[value]), value))
            said = [_("{value} in {where}", value=value, where=where(by_value[value])) for value in others[:OTHERS]]
            if len(others) > OTHERS:
                said.append(_("and {rest} more values", rest=len(others) - OTHERS))
            return _("{usual}, but {others}", usual=usual, others=joined(said, _("; ")))
    return None


def within_seeds(values: Values, alike: Key) -> bool:
    """Whether rows differ at one seed, where they are compared."""
    groups = grouped(values, lambda cell: (cell.seed, alike(cell))).values()
    return any(len({values[cell] for cell in group}) > 1 for group in groups)


CHECKS = (settings, same, packages, modules)


NEARLY = 1e-5  # that rounding puts outside of a range
RANGES = (  # the last part of a score's name, and what it lies between
    (re.compile(r".*accuracy|.*f1|nmi|ece|precision_at_\d+|map_at_r|collapsed|top_singular_share"), 0.0, 1.0),
    (re.compile(r"ari|silhouette|anisotropy|matthews|mean|(spearman|pearson)(_.*)?"), -1.0, 1.0),
    (re.compile(r"alignment_.*|spread"), 0.0, math.inf),
    (re.compile(r"effective_rank"), 1.0, math.inf),
    (re.compile(r"uniformity"), -math.inf, 0.0),
)
ALARM = re.compile(r"(.+/)?[a-z]+\.collapsed")
TIMES = re.compile(r".*(_per_second|memory_mib|seconds)")  # what no seed decides
GUESSES = re.compile(r"(test|validation|train)\.(?!kmeans).*accuracy")  # a classifier's, to be held against chance


def measured_of(results: Results, cells: list[SectionCell]) -> pd.DataFrame:
    return results.measured[results.measured["cell"].isin({cell.cell for cell in cells})]


def limits(score: str) -> tuple[float, float]:
    name = score.rpartition(".")[2]
    return next(((low, high) for kind, low, high in RANGES if kind.fullmatch(name)), (-math.inf, math.inf))


def out_of_range(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Scores that no such measure can give, and such that are no numbers, in MLflow or in scores.json."""
    chosen = {cell.cell: cell for cell in cells if cell.status == "finished"}
    held = results.scores.reindex(list(chosen))
    measured = measured_of(results, list(chosen.values()))
    nothing = measured[~np.isfinite(measured["value"].to_numpy(float))]
    wrong = {(name, cell) for name, cell in zip(nothing["score"], nothing["cell"], strict=True)}
    for name in filter(SCORE.match, held.columns):
        low, high = limits(name)
        values = held[name].to_numpy(float)
        outside = (values < low - NEARLY) | (values > high + NEARLY) | (np.abs(values) > 1e300)
        wrong |= {(name, cell) for cell in held.index[outside]}
    if wrong:
        names = listed(sorted({name for name, _ in wrong}), 3)
        location = where([entry for cell, entry in chosen.items() if any(cell == other for _, other in wrong)])
        words = _("{names}: outside of what it can be, in {location}.", names=names, location=location)
        yield Guard("range", words, True)


def examples(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Values that rest on other texts, or another number of them, in some rows."""
    may = declared(section, results) & FILES
    measured = measured_of(results, cells)
    values = set(section.show.table.values)
    counted = {
        (cell, name): int(count)
        for cell, name, count in measured[["cell", "score", "count"]].dropna().itertuples(index=False)
        if name in values
    }
    finished = [cell for cell in cells if cell.status == "finished"]
    marks = {cell.cell: results.marks(cell.cell) for cell in finished}
    splits = {f"{name.rpartition('/')[2].partition('.')[0]}.ids" for name in values}
    for group in grouped(finished, by(may)).values():
        torn = {name for name in values if len({counted.get((c.cell, name)) for c in group} - {None}) > 1}
        torn |= {ids for ids in splits if len({marks[c.cell].get(ids) for c in group} - {None}) > 1}
        if torn:
            words = _("The rows were not measured on the same texts ({names} differ).", names=listed(sorted(torn)))
            yield Guard("examples", words, True)
            return


def idle_seeds(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Rows whose seeds gave the very same numbers, scores and curves: there the seed does nothing."""
    columns = [name for name in results.scores.columns if not TIMES.fullmatch(name)]
    finished = [cell for cell in cells if cell.status == "finished" and cell.cell in results.scores.index]
    held = results.scores.reindex([cell.cell for cell in finished], columns=columns).to_numpy(float)
    measured = [(cell, row) for cell, row in zip(finished, held, strict=True) if np.isfinite(row).any()]
    finished, marks = [cell for cell, _ in measured], {id(cell): row.tobytes() for cell, row in measured}
    rows = grouped(finished, lambda cell: id(cell.row)).values()
    idle = [row for row in rows if len({c.cell for c in row}) > 1 and len({marks[id(c)] for c in row}) == 1]
    if idle:
        location = where([cell for row in idle for cell in row])
        words = _(
            "Every number is the same at each seed, so that the seed does nothing here: {location}.", location=location
        )
        yield Guard("idle seeds", words)


def collapsed(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Cells whose sentence vectors ended in one direction; their scores measure nothing."""
    for name in filter(ALARM.fullmatch, results.scores.columns):
        of, _slash, split = name.removesuffix(".collapsed").rpartition("/")
        held = values_of(results, cells, name)
        if affected := [cell for cell in cells if held.get(cell.cell) == 1]:
            parts = {"location": where(affected), "split": split, "extra": f" ({of})" if of else ""}
            yield Guard("collapsed", _("{location}: the {split} embeddings{extra} lie in one direction", **parts))
    since = [cell for cell in cells if cell.provenance and cell.provenance.collapsed_since is not None]
    for step, affected in grouped(since, lambda cell: cell.provenance and cell.provenance.collapsed_since).items():
        words = _(
            "{location}: all sentence vectors lie in one direction, since step {step}",
            location=where(affected),
            step=step,
        )
        yield Guard("collapsed", words)


def redundant_scores(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """ARI and NMI side by side where both follow from one accuracy."""
    values = [value for value in section.show.table.values if value.endswith((".ari", ".nmi"))]
    units = [cell_units for cell in cells if (cell_units := results.units.get(cell.cell))]
    if len(values) > 1 and units and all(cell_units.get(value) for cell_units in units for value in values):
        words = _(
            "The classes are two and balanced: ARI ≈ (2a − 1)² and NMI ≈ 1 − H(a) both follow from the "
            "accuracy a of k-means. They are one number, not two."
        )
        yield Guard("redundant", words)


def chance(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Rows whose accuracy, over their seeds, is not above that of always saying the largest class."""
    rows = grouped([cell for cell in cells if cell.status == "finished"], lambda cell: id(cell.row))
    for value in filter(GUESSES.fullmatch, section.show.table.values):
        held = values_of(results, cells, value)
        low = []
        for row in rows.values():
            values = [held[cell.cell] for cell in row if cell.cell in held]
            largest = [share for cell in row if (share := largest_class(cell, value.partition(".")[0]))]
            if values and largest and sum(values) / len(values) <= largest[0]:
                low += row
        if low:
            words = _(
                "{score} is not above the share of the largest class, which needs no training: {location}.",
                score=heading(value), location=where(low, seeds=False),
            )  # fmt: skip
            yield Guard("chance", words)


def largest_class(cell: SectionCell, split: str) -> float:
    of_classes = cell.provenance.class_counts.get(split, {}) if cell.provenance else {}
    return max(of_classes.values(), default=0) / max(1, sum(of_classes.values()))


SCORE_CHECKS = (out_of_range, examples, idle_seeds, collapsed, redundant_scores, chance)
