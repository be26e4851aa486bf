"""What the numbers of a report rest on: texts of each class, rows dropped, hardware, time, energy, cost, versions."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from contrastive.runs.recorded import DataCounts, Provenance
from reports.load import Results
from reports.markdown import duration
from reports.messages import Said, _, joined, n_
from reports.tables import Entry, Table

# Why rows are dropped, by their names in grid.json
REASONS = {
    "repeated": _("repeated"),
    "contradicting": _("with contradicting labels"),
    "held_out": _("in a held-out split"),
    "partner_held_out": _("with a partner in a held-out split"),
}


def data_tables(results: Results) -> list[Table]:
    return [*class_tables(results), *row_tables(results)]


def class_tables(results: Results) -> list[Table]:
    """The texts of each class, split by split; a split without texts has no line."""
    tables = []
    for data, cells in cells_by_data(results).items():
        counts = {split: found for split, found in counts_of(results, cells).items() if any(found.values())}
        classes = list(dict.fromkeys(name for found in counts.values() for name in found))
        seed = seed_of_draw(results, cells)
        names = {
            split: f"{split} (seed {seed})" if split == "train" and seed is not None else split for split in counts
        }
        body = [
            [Entry(names[split]), *(number(found.get(name, 0)) for name in classes), number(sum(found.values()))]
            for split, found in counts.items()
        ]
        if body:
            head = _("Split of {data}", data=data) if data else _("Split")
            tables.append(Table(None, [head, *classes, _("all")], body))
    return tables


def row_tables(results: Results) -> list[Table]:
    """A line for what a data set was read from; its numbers add up to all rows."""
    tables = []
    for data in counted_data(results):
        body = []
        for part, counts in data.sifted.items():
            numbers = [counts[reason] for reason in REASONS]
            body.append([Entry(part), *map(number, [*numbers, counts["rows"] - sum(numbers), counts["rows"]])])
        tables.append(Table(None, [_("Rows{data}", data=named(data)), *REASONS.values(), _("kept"), _("all")], body))
    return tables


def number(count: int) -> Entry:
    return Entry(str(count), count)


def counted_data(results: Results) -> list[DataCounts]:
    """The data sets whose rows were counted: grids of before that have none."""
    return [data for data in results.grid.data if data.sifted]


def named(data: DataCounts) -> Said:
    """` of tweets`; nothing where there is one data set."""
    name = data.name
    if data.transfer:
        return _(" of transfer {name}", name=name)
    return _(" of {name}", name=name) if name else _("")


def rows_dropped(counts: dict[str, int]) -> int:
    return sum(counts[reason] for reason in REASONS)


def parts(results: Results) -> Iterator[tuple[str, Said, dict[str, int]]]:
    """Each file or split that was read, the data set that it belongs to, and its counts."""
    for data in counted_data(results):
        for part, counts in data.sifted.items():
            yield part, named(data), counts


def dropped_sentence(part: str, of: Said, counts: dict[str, int]) -> Said:
    """`Of 180 rows (source of tweets), 120 were dropped: 60 repeated, 60 with contradicting labels.`"""
    why = [_("{count} {reason}", count=counts[name], reason=reason) for name, reason in REASONS.items() if counts[name]]
    return _(
        "Of {rows} rows ({part}{data}), {count} were dropped: {reasons}.",
        rows=counts["rows"], part=part, data=of, count=rows_dropped(counts), reasons=joined(why, _(", ")),
    )  # fmt: skip


def counts_of(results: Results, cells: list[str]) -> Mapping[str, Mapping[str, int]]:
    """Of the first cell of which they are noted."""
    noted = (provenance for cell in cells if (provenance := results.provenance(cell)))
    first = next(noted, None)
    return first.class_counts if first else {}


def seed_of_draw(results: Results, cells: list[str]) -> int | None:
    """Whose training texts these counts are of; None where all seeds have the same."""
    first = next((cell for cell in cells if results.provenance(cell)), None)
    rows = [row for section in results.grid.sections for row in section.rows if row.drawn and first in row.cells]
    return rows[0].seeds[rows[0].cells.index(str(first))] if rows else None


def cells_by_data(results: Results) -> dict[str, list[str]]:
    """Name of the data → the cells of it that MLflow knows."""
    cells: dict[str, list[str]] = {}
    for section in results.grid.sections:
        for row in section.rows:
            cells.setdefault(row.data, []).extend(cell for cell in row.cells if cell in results.cells)
    return cells


HOUR, GIB = 3600.0, 2**30
KEPT = {"full": _("frozen blocks kept in full precision"), "half": _("frozen blocks kept in half precision")}


def footer(results: Results) -> list[Said]:
    """What stands below a report: hardware, what it cost, versions, commits. Times and energy are sums over the cells,
    each counted once: cells that ran side by side took less time together."""
    provenances = [p for run in results.cells.values() if (p := run.provenance)]
    machines = [p.hardware for p in provenances]
    hardware = sorted({f"{m.cpu}, {m.cores} cores, {m.memory_gib} GiB, device {m.device}" for m in machines})
    versions = sorted({", ".join(f"{name} {version}" for name, version in p.packages.items()) for p in provenances})
    lines: list[Said] = [_("Hardware: {line}", line=line) for line in hardware]
    lines.append(spent(results, provenances))
    lines += [line for line in (predicted(provenances), ways(provenances)) if line]
    lines += [_("Versions: {line}", line=line) for line in versions]
    if commits := ", ".join(sorted({p.commit for p in provenances if p.commit})):
        lines.append(_("Commit: {commits}", commits=commits))
    if results.digest:
        lines.append(_("Made from the results {digest}", digest=results.digest))
    return lines


def gpu_seconds(provenance: Provenance) -> float:
    """Of all its devices: a cell of several processes has one each."""
    return provenance.gpu_seconds * (provenance.processes or 1)


def energy(provenances: Sequence[Provenance]) -> dict[str, float]:
    """Watt-hours of the cells together, of `cpu` and `gpu`, as far as counters could be read for all of them: a part
    would be taken for the whole."""
    joules = [p.energy_joules or {} for p in provenances]
    return {
        kind: sum(t[kind] for t in joules) / HOUR
        for kind in ("cpu", "gpu")
        if joules and all(kind in t for t in joules)
    }


def predicted(provenances: Sequence[Provenance]) -> Said | None:
    """What `ablate plan` had said of the cells before they ran, beside what they took."""
    cells = [(p, p.predicted) for p in provenances if p.predicted and p.predicted.seconds > 0]
    if not cells:
        return None
    before = duration(sum(said.seconds for _p, said in cells))
    after = duration(sum(p.wall_seconds for p, _said in cells))
    ratios = sorted(p.wall_seconds / said.seconds for p, said in cells)
    middle, low, high = (f"{ratio:.2f}" for ratio in (median(ratios), ratios[0], ratios[-1]))
    said: list[Said] = [
        _("Predicted: {before} for {cells} cells; measured: {after}", before=before, cells=len(cells), after=after),
        _(
            "a cell took {low} to {high} times as long as predicted (median {middle})",
            low=low,
            high=high,
            middle=middle,
        ),
    ]
    if sized := [(p.peak_memory_bytes, said.memory_bytes) for p, said in cells if p.peak_memory_bytes]:
        measured, foreseen = (f"{max(sizes) / GIB:.2f} GiB" for sizes in zip(*sized, strict=True))
        said.append(_("largest memory of a cell: predicted {foreseen}, measured {measured}",
                      foreseen=foreseen, measured=measured))  # fmt: skip
    return joined(said, _("; "))


def ways(provenances: Sequence[Provenance]) -> Said | None:
    """How cells were computed faster, as far as that changes the last digits of their numbers."""
    kinds = {(p.speed or {}).get("reuse") for p in provenances}
    names = [name for kind, name in KEPT.items() if kind in kinds]
    return _("Computed with {ways}", ways=joined(names, _(" and "))) if names else None


def spent(results: Results, provenances: Sequence[Provenance]) -> Said:
    """Cells and their time; energy and money where they are known."""
    on_gpus = sum(map(gpu_seconds, provenances))
    said: list[Said] = [
        n_("{count} cell", "{count} cells", len(results.cells)),
        _("{time} of computing", time=duration(sum(p.wall_seconds for p in provenances))),
    ]
    if on_gpus:
        said.append(_("{time} of it on a GPU", time=duration(on_gpus)))
    for meter, used in energy(provenances).items():
        said.append(_("{energy} Wh ({meter})", energy=f"{used:.1f}", meter=meter))
    report = results.grid.experiment.report
    if report.price_per_hour is not None:  # of an hour of a GPU; of a machine, for cells that had none
        cost = report.price_per_hour * sum(gpu_seconds(p) or p.wall_seconds for p in provenances) / HOUR
        price, cost_text = (f"{report.price_per_hour:g} {report.currency}", f"{cost:.2f} {report.currency}")
        said.append(_("about {cost} at {price} an hour", cost=cost_text, price=price))
    memory = max((p.peak_memory_mib for p in provenances), default=0)
    said.append(_("largest memory of a process {memory} MiB", memory=memory))
    return joined(said, _("; "))
