"""Where the numbers of a report, or of one table, come from: hardware, time, energy, cost, versions, commits."""

from collections.abc import Sequence
from dataclasses import dataclass

from contrastive.runs.recorded import Provenance, RecordedSection
from reports.bilingual import Words
from reports.load import Results
from reports.predicted import predicted
from reports.ways import ways

HOUR = 3600.0


@dataclass(frozen=True)
class Footer:
    """What stands below a report, or below one of its sections. Times and energy are sums over the cells, each
    counted once: cells that ran side by side took less time together."""

    hardware: list[str]
    versions: list[str]
    commits: list[str]
    cells: int
    wall_minutes: float
    gpu_minutes: float
    peak_memory_mib: int
    energy_watt_hours: dict[str, float]  # meter → energy, where all cells have it
    predicted: Words | None
    ways: Words | None
    price_per_hour: float | None
    currency: str
    cost: float | None  # None without a price


def footer(results: Results, section: RecordedSection | None = None) -> Footer:
    cells = list(results.cells) if section is None else list(section_cells(section, results))
    provenances = [p for cell in cells if (p := results.cells[cell].provenance)]
    machines = [p.hardware for p in provenances]
    report = results.grid.experiment.report
    return Footer(
        sorted({f"{m.cpu}, {m.cores} cores, {m.memory_gib} GiB, device {m.device}" for m in machines}),
        sorted({", ".join(f"{name} {version}" for name, version in p.packages.items()) for p in provenances}),
        sorted({p.commit for p in provenances if p.commit}),
        len(cells),
        sum(p.wall_seconds for p in provenances) / 60,
        sum(map(gpu_seconds, provenances)) / 60,
        max((p.peak_memory_mib for p in provenances), default=0),
        energy(provenances),
        predicted(provenances),
        ways(provenances),
        report.price_per_hour,
        report.currency,
        money(report.price_per_hour, provenances),
    )


def section_cells(section: RecordedSection, results: Results) -> dict[str, None]:
    return {cell: None for row in section.rows for cell in row.cells if cell in results.cells}


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


def money(price: float | None, provenances: Sequence[Provenance]) -> float | None:
    """At the price of an hour of a GPU; of a machine, for cells that had none."""
    return None if price is None else price * sum(gpu_seconds(p) or p.wall_seconds for p in provenances) / HOUR


def footer_lines(facts: Footer) -> list[Words]:
    """What stands below a report: hardware, what it cost, versions, commits."""
    lines = [Words(f"Hardware: {line}", f"硬件：{line}") for line in facts.hardware]
    lines.append(spent(facts))
    lines += [line for line in (facts.predicted, facts.ways) if line]
    lines += [Words(f"Versions: {line}", f"版本：{line}") for line in facts.versions]
    if commits := ", ".join(facts.commits):
        lines.append(Words(f"Commit: {commits}", f"提交：{commits}"))
    return lines


def spent(facts: Footer) -> Words:
    """Cells and their time; energy and money where they are known."""
    wall, gpu = f"{facts.wall_minutes:.1f}", f"{facts.gpu_minutes:.1f}"
    english = [f"{facts.cells} cells", f"{wall} minutes of computing, {gpu} of them on a GPU"]
    chinese = [f"{facts.cells} 个单元", f"计算 {wall} 分钟，其中 GPU {gpu} 分钟"]
    for meter, energy in facts.energy_watt_hours.items():
        english.append(f"{energy:.1f} Wh ({meter})")
        chinese.append(f"{energy:.1f} Wh（{meter}）")
    if facts.cost is not None:
        price = f"{facts.price_per_hour:g} {facts.currency}"
        english.append(f"about {facts.cost:.2f} {facts.currency} at {price} an hour")
        chinese.append(f"按每小时 {price} 约 {facts.cost:.2f} {facts.currency}")
    memory = facts.peak_memory_mib
    english.append(f"largest memory of a process {memory} MiB")
    chinese.append(f"单个进程最大内存 {memory} MiB")
    return Words("; ".join(english), "；".join(chinese))


def section_footer(section: RecordedSection, results: Results) -> Words | None:
    """On what a section was computed, and what that took; nothing of cells that say nothing of it."""
    facts = footer(results, section)
    if not facts.hardware:
        return None
    hardware, cost = " / ".join(facts.hardware), spent(facts)
    return Words(f"Computed on: {hardware}; {cost.en}", f"实验环境：{hardware}；{cost.zh}")
