"""Where the numbers of a report, or of one table, come from: hardware, time, energy, cost, versions, commits."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from contrastive.runs.recorded import Provenance
from reports.load import Results
from reports.markdown import duration
from reports.messages import Said, _, joined, n_

HOUR, GIB = 3600.0, 2**30
KEPT = {"full": _("frozen blocks kept in full precision"), "half": _("frozen blocks kept in half precision")}


@dataclass(frozen=True)
class Footer:
    """What stands below a report. Times and energy are sums over the cells, each counted once: cells that ran side by
    side took less time together."""

    hardware: list[str]
    versions: list[str]
    commits: list[str]
    cells: int
    wall_seconds: float
    gpu_seconds: float
    peak_memory_mib: int
    energy_watt_hours: dict[str, float]  # meter → energy, where all cells have it
    predicted: Said | None
    ways: Said | None
    price_per_hour: float | None
    currency: str
    cost: float | None  # None without a price
    digest: str  # of all results


def footer(results: Results) -> Footer:
    provenances = [p for run in results.cells.values() if (p := run.provenance)]
    machines = [p.hardware for p in provenances]
    report = results.grid.experiment.report
    return Footer(
        sorted({f"{m.cpu}, {m.cores} cores, {m.memory_gib} GiB, device {m.device}" for m in machines}),
        sorted({", ".join(f"{name} {version}" for name, version in p.packages.items()) for p in provenances}),
        sorted({p.commit for p in provenances if p.commit}),
        len(results.cells),
        sum(p.wall_seconds for p in provenances),
        sum(map(gpu_seconds, provenances)),
        max((p.peak_memory_mib for p in provenances), default=0),
        energy(provenances),
        predicted(provenances),
        ways(provenances),
        report.price_per_hour,
        report.currency,
        money(report.price_per_hour, provenances),
        results.digest,
    )


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
        _(
            "Predicted: {before} for {cells} cells; measured: {after}",
            before=before,
            cells=len(cells),
            after=after,
        ),
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


def money(price: float | None, provenances: Sequence[Provenance]) -> float | None:
    """At the price of an hour of a GPU; of a machine, for cells that had none."""
    return None if price is None else price * sum(gpu_seconds(p) or p.wall_seconds for p in provenances) / HOUR


def footer_lines(facts: Footer) -> list[Said]:
    """What stands below a report: hardware, what it cost, versions, commits."""
    lines: list[Said] = [_("Hardware: {line}", line=line) for line in facts.hardware]
    lines.append(spent(facts))
    lines += [line for line in (facts.predicted, facts.ways) if line]
    lines += [_("Versions: {line}", line=line) for line in facts.versions]
    if commits := ", ".join(facts.commits):
        lines.append(_("Commit: {commits}", commits=commits))
    if facts.digest:
        lines.append(_("Made from the results {digest}", digest=facts.digest))
    return lines


def spent(facts: Footer) -> Said:
    """Cells and their time; energy and money where they are known."""
    said: list[Said] = [
        n_("{count} cell", "{count} cells", facts.cells),
        _("{time} of computing", time=duration(facts.wall_seconds)),
    ]
    if facts.gpu_seconds:
        said.append(_("{time} of it on a GPU", time=duration(facts.gpu_seconds)))
    said += [
        _("{energy} Wh ({meter})", energy=f"{energy:.1f}", meter=meter)
        for meter, energy in facts.energy_watt_hours.items()
    ]
    if facts.cost is not None:
        price, cost = f"{facts.price_per_hour:g} {facts.currency}", f"{facts.cost:.2f} {facts.currency}"
        said.append(_("about {cost} at {price} an hour", cost=cost, price=price))
    said.append(_("largest memory of a process {memory} MiB", memory=facts.peak_memory_mib))
    return joined(said, _("; "))
