"""Whether something else than its axes tells the rows of a section apart: settings, data, code, packages, machines.

What may differ by nature is compared only where it may not: settings between cells of the same objective, the code
between cells that run the same part of it. A difference that is the same for all rows of a seed leaves their
comparison alone, since rows are compared seed by seed; it is said all the same.
"""

import json
from collections.abc import Callable, Hashable, Iterator
from typing import Any, TypeAlias

from contrastive.config import registry
from contrastive.config.experiment import PARTS, SETTINGS
from contrastive.runs.recorded import Provenance, RecordedSection
from reports.guards.shown import Guard, Shown, declared, grouped, listed, where
from reports.load import Results
from reports.messages import Said, _, joined

Key: TypeAlias = Callable[[Shown], Hashable]

FOLLOWING = {*PARTS["objective"].model_fields, "head_lr", "encoder_lr", "layer_decay"}
ELSEWHERE = {"threads", "processes"}  # compared as they were, not as they were asked for
SIZELESS = {"alpha", "mlm_weight", "temperature", "beta", "sigma", "rate", "redundancy", "chunk", "k", "change",
            "dropout", "pooling"}  # settings of encoder and objective that add no parameter  # fmt: skip
OTHERS = 2  # further values that a sentence names


def choices() -> tuple[str, ...]:
    """The settings from which follows which others are read."""
    return ("loss", "view", "tune", *registry.variant_settings())


def path(name: str) -> str:
    """A setting as MLflow names it."""
    part = SETTINGS[name]
    return name if part == "objective" else f"{part}.{name}"


def by(names: set[str]) -> Key:
    """Cells with the same of these settings."""
    paths = sorted(path(name) for name in names if name in SETTINGS)
    return lambda cell: tuple(cell.setting(name) for name in paths)


def of_one_draw(alike: Key) -> Key:
    """Cells that are alike and train on the same texts, where each seed draws its own."""
    return lambda cell: (alike(cell), cell.seed if cell.row.drawn else None)


def same_settings(section: RecordedSection, results: Results, cells: list[Shown]) -> Iterator[Guard]:
    recorded, may = [cell for cell in cells if cell.params], declared(section, results)
    differences = []
    for name in sorted(SETTINGS.keys() - may - ELSEWHERE):
        alike = by({*choices()} - {name}) if name in FOLLOWING else by(set())
        values = {cell: cell.setting(path(name)) for cell in recorded}
        if difference := first_difference(values, alike):
            differences.append((_("{name} is {difference}", name=name, difference=difference), values))
    if differences:
        said: list[Said] = [words for words, _values in differences[:3]]
        if rest := len(differences) - len(said):
            said.append(_("and {rest} more settings", rest=rest))
        words = _(
            "The cells differ in settings that are no axis of this table: {settings}.", settings=joined(said, _("; "))
        )
        yield Guard("settings", words, True)


def first_difference(values: dict[Shown, str], alike: Key) -> Said | None:
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


def within_seeds(values: dict[Shown, str], alike: Key) -> bool:
    """Whether rows differ at one seed, where they are compared."""
    return any(
        len({values[cell] for cell in group}) > 1
        for group in grouped(values, lambda cell: (cell.seed, alike(cell))).values()
    )


def compare_alike(
    kind: str, what: Said, values: dict[Shown, str], alike: Key, *, blocks: bool | None = None
) -> list[Guard]:
    """A guard where cells that are alike have several values; by itself it blocks where they have so at one seed."""
    difference = first_difference(values, alike)
    if difference is None:
        return []
    confounded = within_seeds(values, alike)
    end = _("differences between rows may come from that") if confounded else _("it is the same for all rows of a seed")
    said = _("{what}: {difference}; {end}.", what=what, difference=difference, end=end)
    return [Guard(kind, said, confounded if blocks is None else blocks)]


def noted(cells: list[Shown], read: Callable[[Provenance], Any]) -> dict[Shown, str]:
    """What the provenance of cells says, of those where it says something."""
    values = {cell: read(cell.provenance) for cell in cells if cell.provenance}
    return {cell: str(value) for cell, value in values.items() if value is not None}


def data(section: RecordedSection, results: Results, cells: list[Shown]) -> Iterator[Guard]:
    may = declared(section, results) & set(PARTS["data"].model_fields)
    digests = noted(cells, lambda p: p.data_digest[:12] if p.data_digest else None)
    sources = may & {"source", "text", "label", "positive", "negative", "test", "validation"}
    yield from compare_alike("data", _("The data is not the same"), digests, by(sources), blocks=True)
    tests = noted(cells, lambda p: split_counts(p, "test"))
    what = _("The test texts are not the same")
    yield from compare_alike("test data", what, tests, by(may - {"train", "max_length"}), blocks=True)
    training = noted(cells, lambda p: split_counts(p, "train"))
    what = _("The training texts are not the same")
    yield from compare_alike("training data", what, training, of_one_draw(by(may - {"max_length"})), blocks=True)


def split_counts(provenance: Provenance, split: str) -> str | None:
    of_classes = provenance.class_counts.get(split)
    return None if of_classes is None else ", ".join(f"{count} {name}" for name, count in of_classes.items())


def parameters(section: RecordedSection, results: Results, cells: list[Shown]) -> Iterator[Guard]:
    sizes = {*PARTS["encoder"].model_fields, *PARTS["objective"].model_fields, *PARTS["data"].model_fields}
    counted = noted(cells, lambda p: p.trained_parameters)
    what = _("The number of trained parameters differs between cells of one model")
    alike = of_one_draw(by(sizes - SIZELESS - {"max_length"}))  # a vocabulary may be that of the training texts
    yield from compare_alike("parameters", what, counted, alike, blocks=True)


def same_code(section: RecordedSection, results: Results, cells: list[Shown]) -> Iterator[Guard]:
    """Cells of the same parts by their digest; beyond that module by module, where it is noted."""
    digests = noted(cells, lambda p: p.code)
    what = _("The code is not the same")
    guards = compare_alike("code", what, digests, by({"loss", "view", "source"}), blocks=True)
    if guards or len({cell.provenance.commit for cell in digests if cell.provenance}) < 2:
        yield from guards
        return
    modules: dict[str, set[str]] = {}
    for cell in {digest: cell for cell, digest in digests.items()}.values():
        for module, digest in results.code_files(cell.cell).items():
            modules.setdefault(module, set()).add(digest)
    if changed := sorted(module for module, held in modules.items() if len(held) > 1):
        names = listed(changed, 3)
        yield Guard(
            "code",
            _("The cells were computed by different code: {names} changed between them.", names=names),
            True,
        )


def packages(section: RecordedSection, results: Results, cells: list[Shown]) -> Iterator[Guard]:
    """A package that a run does not note is not another one: the list of those that are noted has grown."""
    held = [cell.provenance.packages for cell in cells if cell.provenance and cell.provenance.packages]
    versions: dict[str, set[str]] = {}
    for name, version in (pair for packages in held for pair in packages.items()):
        versions.setdefault(name, set()).add(version)
    differing = sorted(name for name, used in versions.items() if len(used) > 1)

    def shown(p: Provenance) -> str | None:
        whole = p.packages and p.packages.keys() >= {*differing}
        return ", ".join(f"{name} {p.packages[name]}" for name in differing) if whole else None

    values = noted(cells, shown)
    yield from compare_alike("packages", _("Package versions differ"), values, by(set()))


def same_hardware(section: RecordedSection, results: Results, cells: list[Shown]) -> Iterator[Guard]:
    machines = noted(cells, lambda p: f"{p.hardware.device} ({p.hardware.cpu})")
    yield from compare_alike("hardware", _("The hardware differs"), machines, by(set()))


def width(section: RecordedSection, results: Results, cells: list[Shown]) -> Iterator[Guard]:
    """Threads and processes, which decide the last bits of a result."""
    may = declared(section, results)
    threads, processes = noted(cells, lambda p: p.threads), noted(cells, lambda p: p.processes)
    if "threads" not in may:
        yield from compare_alike("threads", _("The number of threads differs"), threads, by(set()))
    if "processes" not in may:
        yield from compare_alike("processes", _("The number of processes differs"), processes, by(set()))


def halved(section: RecordedSection, results: Results, cells: list[Shown]) -> Iterator[Guard]:
    """Cells that had too little memory for what was asked."""
    affected = [
        cell
        for cell in cells
        if cell.provenance and cell.params and cell.provenance.micro_batch is not None
        if json.dumps(cell.provenance.micro_batch) != cell.setting("training.micro_batch")
    ]
    if affected:
        location = where(affected)
        yield Guard(
            "micro-batch",
            _(
                "For lack of memory, fewer texts were encoded at a time than the settings say: {location}.",
                location=location,
            ),
            False,
        )


def evaluation(section: RecordedSection, results: Results, cells: list[Shown]) -> Iterator[Guard]:
    keys = {cell: cell.evaluation for cell in cells if cell.status == "finished" and cell.evaluation}
    what = _("The cells were measured by different settings")
    yield from compare_alike("evaluation", what, keys, by(set()), blocks=True)


def unknown(section: RecordedSection, results: Results, cells: list[Shown]) -> Iterator[Guard]:
    """Finished cells of which nothing is known that could be compared."""
    without = [cell for cell in cells if cell.status == "finished" and not cell.provenance]
    if without:
        location = where(without)
        yield Guard(
            "provenance",
            _("Nothing tells where these numbers come from: {location}.", location=location),
            True,
        )


CHECKS = (same_settings, data, parameters, same_code, packages, same_hardware, width, halved, evaluation, unknown)
