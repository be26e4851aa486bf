"""Guards of cells that differ in more than a section's axes: settings, data, code, machines, test texts.

A difference that is the same for all rows of a seed does not bias their comparison, since rows are compared seed by
seed; it is still reported.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from contrastive.config import registry
from contrastive.config.cell import PARTS, SETTINGS
from contrastive.runs.recorded import Provenance, RecordedSection
from reports.guards.results import Guard, SectionCell, finished_cells, grouped, where
from reports.messages import N_, _, listed
from reports.study import Results

Key: TypeAlias = Callable[[SectionCell], Hashable]
Values: TypeAlias = Mapping[SectionCell, str]

FILES = {"source", "text", "label", "positive", "negative", "test", "validation"}
DATA = {*PARTS["data"].model_fields}
SIZES = {*PARTS["encoder"].model_fields, *PARTS["objective"].model_fields, *DATA}
FOLLOWING = {"head_lr", "encoder_lr", "layer_decay"}  # may follow from the recipe, as the objective does
USUAL = frozenset(SETTINGS)
AS_RUN = {"threads", "processes"}  # compared by the values that the run used, not by the settings
OTHERS = 2  # deviating values that a sentence names
NAMED_SETTINGS = 3  # deviating settings that a sentence names


@dataclass(frozen=True)
class Same:
    """A check that `read` gives the same value in all cells; cells where it gives None are left out."""

    kind: str
    what: str
    read: Callable[[SectionCell], object]
    follows: frozenset[str] = frozenset()  # settings that it depends on: where they are axes, only equal ones compare
    blocks: bool | None = True  # the guard's `blocks_ranking`; None: only if rows differ at one seed
    drawn: bool = False  # whether it depends on the training texts, which each seed may draw anew


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
    Same("code", N_("The code differs"), recorded(lambda p: p.code),
         frozenset({"loss", "view", "pooling", "model", "source"})),
    Same("evaluation", N_("The evaluation settings differ"),
         lambda cell: cell.run.evaluation or None if cell.run.status == "finished" else None),
    Same("hardware", N_("The hardware differs"), recorded(lambda p: f"{p.hardware.device} ({p.hardware.cpu})"),
         blocks=None),
    Same("threads", N_("The number of threads differs"), recorded(lambda p: p.threads), frozenset({"threads"}),
         blocks=None),
    Same("processes", N_("The number of processes differs"), recorded(lambda p: p.processes),
         frozenset({"processes"}), blocks=None),
)  # fmt: skip


def declared(section: RecordedSection, results: Results) -> set[str]:
    """Return the settings in which a section's rows may differ: its axes, those in `include`, those of its baseline."""
    names = {name for row in section.rows for name in row.axes}
    return names | results.study.varied.get(section.title, set())


def same(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    axes, own = declared(section, results), SETTINGS.keys() - USUAL  # those of users' losses follow them
    for check in SAME:
        values = {cell: str(value) for cell in cells if (value := check.read(cell)) is not None}
        follows = {*check.follows, *own} if "loss" in check.follows else {*check.follows}
        key = by(follows & axes)
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
        key = by(choices - {name}) if name in FOLLOWING or SETTINGS[name] == "objective" else by(set())
        difference = first_difference({cell: cell.setting(path(name)) for cell in with_settings}, key)
        if difference is not None:
            phrases.append(_("{name} is {difference}", name=name, difference=difference))
    if (rest := len(phrases) - NAMED_SETTINGS) > 0:
        phrases[NAMED_SETTINGS:] = [_("and {rest} more settings", rest=rest)]
    if phrases:
        words = _(
            "The cells differ in settings that are not axes of this table: {settings}.",
            settings=_("; ").join(phrases),
        )
        yield Guard("settings", words, blocks_ranking=True)


def packages(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Warn of packages with several versions."""
    packages_of = {cell: cell.run.provenance.packages for cell in cells if cell.run.provenance}
    for name in sorted({name for installed in packages_of.values() for name in installed}):
        versions = {cell: installed[name] for cell, installed in packages_of.items() if name in installed}
        yield from differing("packages", _("Versions of {name} differ", name=name), versions, by(set()))


def examples(section: RecordedSection, results: Results, cells: list[SectionCell]) -> Iterator[Guard]:
    """Warn if rows with the same data settings were measured on different test texts, by the ids in examples.npz."""
    values = section.show.table.values
    splits = sorted({f"{value.rpartition('/')[2].partition('.')[0]}.ids" for value in values})
    finished, data = finished_cells(cells), by(declared(section, results) & FILES)
    marks = {cell.cell: results.marks(cell.cell) for cell in finished}
    for group in grouped(finished, lambda cell: (cell.row.data, data(cell))).values():
        unlike = [split for split in splits if len({marks[cell.cell].get(split) for cell in group} - {None}) > 1]
        if unlike:
            words = _("The rows were not measured on the same examples ({names} differ).", names=listed(unlike))
            yield Guard("examples", words, blocks_ranking=True)
            return


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


CHECKS = (settings, same, packages, examples)
