"""Data tables and footer of a report: class counts, dropped rows, hardware, time, cost, versions."""

from collections.abc import Mapping, Sequence

from contrastive.runs.recorded import DataCounts, Provenance
from reports.markdown import duration
from reports.messages import N_, _, n_
from reports.study import Results
from reports.tables import Entry, Table

HOUR = 3600.0  # seconds
# Why rows are dropped: key in grid.json → words
REASONS = {
    "repeated": N_("repeated"),
    "contradicting": N_("with contradicting labels"),
    "held_out": N_("in a held-out split"),
    "partner_held_out": N_("with a partner in a held-out split"),
}


def class_tables(results: Results) -> list[Table]:
    """Return, for each data set, a table of class counts by split, without empty splits."""
    tables = []
    for data, cells in cells_by_data(results).items():
        counts = {split: by_class for split, by_class in counts_of(results, cells).items() if any(by_class.values())}
        classes = list(dict.fromkeys(name for by_class in counts.values() for name in by_class))
        seed = seed_of_draw(results, cells)
        body = []
        for split, by_class in counts.items():
            name = f"{split} (seed {seed})" if split == "train" and seed is not None else split
            numbers = [by_class.get(label, 0) for label in classes]
            body.append([Entry(name), *map(count_entry, [*numbers, sum(numbers)])])
        if body:
            head = _("Split of {data}", data=data) if data else _("Split")
            tables.append(Table(None, [head, *classes, _("all")], body))
    return tables


def row_tables(results: Results) -> list[Table]:
    """Return, for each data set, a table of dropped and kept rows, with a line for each file or split read."""
    tables = []
    for data in results.study.data:
        body = []
        for part, counts in data.sifted.items():
            numbers = [counts[reason] for reason in REASONS]
            body.append([Entry(part), *map(count_entry, [*numbers, counts["rows"] - sum(numbers), counts["rows"]])])
        if body:  # nothing is dropped from queries and documents
            head = _("Data rows{data}", data=named(data))
            tables.append(Table(None, [head, *map(_, REASONS.values()), _("kept"), _("all")], body))
    return tables


def count_entry(count: int) -> Entry:
    return Entry(str(count), count)


def named(data: DataCounts) -> str:
    """Return ` of tweets`; an empty text if there is a single data set."""
    if data.transfer:
        return _(" of transfer {name}", name=data.name)
    return _(" of {name}", name=data.name) if data.name else ""


def rows_dropped(counts: dict[str, int]) -> int:
    return sum(counts[reason] for reason in REASONS)


def dropped_sentence(part: str, data: DataCounts, counts: dict[str, int]) -> str:
    """`Of 180 rows (source of tweets), 120 were dropped: 60 repeated, 60 with contradicting labels.`"""
    why = [
        _("{count} {reason}", count=counts[name], reason=_(reason)) for name, reason in REASONS.items() if counts[name]
    ]
    return _(
        "Of {rows} data rows ({part}{data}), {count} were dropped: {reasons}.",
        rows=counts["rows"], part=part, data=named(data), count=rows_dropped(counts), reasons=_(", ").join(why),
    )  # fmt: skip


def counts_of(results: Results, cells: list[str]) -> Mapping[str, Mapping[str, int]]:
    """Return split → class → number of texts of the first cell with provenance; empty if none has it."""
    for cell in cells:
        if provenance := results.provenance(cell):
            return provenance.class_counts
    return {}


def seed_of_draw(results: Results, cells: list[str]) -> int | None:
    """Return the seed whose training texts `counts_of` counts; None if all seeds share their training texts."""
    counted = next((cell for cell in cells if results.provenance(cell)), None)
    for row in (row for section in results.study.sections for row in section.rows):
        if row.drawn and counted in row.cells:
            return row.seeds[row.cells.index(counted)]
    return None


def cells_by_data(results: Results) -> dict[str, list[str]]:
    """Map each data set to its cells that are in MLflow."""
    cells: dict[str, list[str]] = {}
    for section in results.study.sections:
        for row in section.rows:
            cells.setdefault(row.data, []).extend(cell for cell in row.cells if cell in results.cells)
    return cells


def footer(results: Results) -> list[str]:
    """Return the lines at the end of a report: hardware, cost, versions, commits. Times are sums over
    cells; cells that ran in parallel took less wall time together."""
    if results.study.foreign:
        return [
            _("Read from {table}", table=results.study.source),
            _("Made from the results {digest}", digest=results.digest),
        ]
    provenances = [p for run in results.cells.values() if (p := run.provenance)]
    machines = [p.hardware for p in provenances]
    hardware = sorted({f"{m.cpu}, {m.cores} cores, {m.memory_gib} GiB, device {m.device}" for m in machines})
    versions = sorted({", ".join(f"{name} {version}" for name, version in p.packages.items()) for p in provenances})
    lines: list[str] = [_("Hardware: {line}", line=line) for line in hardware]
    lines.append(cost_line(results, provenances))
    lines += [_("Versions: {line}", line=line) for line in versions]
    if commits := ", ".join(sorted({p.commit for p in provenances if p.commit})):
        lines.append(_("Commit: {commits}", commits=commits))
    if results.digest:
        lines.append(_("Made from the results {digest}", digest=results.digest))
    return lines


def gpu_seconds(provenance: Provenance) -> float:
    """Return a cell's GPU time, summed over its processes, which have one device each."""
    return provenance.gpu_seconds * (provenance.processes or 1)


def cost_line(results: Results, provenances: Sequence[Provenance]) -> str:
    """Return number, time and memory of the cells, with money if known."""
    on_gpus = sum(map(gpu_seconds, provenances))
    parts: list[str] = [
        n_("{count} cell", "{count} cells", len(results.cells)),
        _("{time} of computing", time=duration(sum(p.wall_seconds for p in provenances))),
    ]
    if on_gpus:
        parts.append(_("{time} of it on a GPU", time=duration(on_gpus)))
    study = results.study
    if study.price_per_hour is not None:  # per GPU hour, or machine hour of cells without a GPU
        cost = study.price_per_hour * sum(gpu_seconds(p) or p.wall_seconds for p in provenances) / HOUR
        price, cost_text = (f"{study.price_per_hour:g} {study.currency}", f"{cost:.2f} {study.currency}")
        parts.append(_("about {cost} at {price} per hour", cost=cost_text, price=price))
    memory = max((p.peak_memory_mib for p in provenances), default=0)
    parts.append(_("peak memory of a process {memory} MiB", memory=memory))
    return _("; ").join(parts)
