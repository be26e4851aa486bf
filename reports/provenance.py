"""Where the numbers of a report, or of one table, come from: hardware, time, energy, cost, versions, commits."""

from typing import Any

from reports.load import Results
from reports.predicted import predicted
from reports.ways import ways

HOUR = 3600.0


def footer(results: Results, section: dict[str, Any] | None = None) -> dict[str, Any]:
    """What stands below a report, or below one of its sections. Times and energy are sums over the cells, each
    counted once: cells that ran side by side took less time together."""
    cells = list(results.entries) if section is None else list(of_section(section, results))
    known = [p for cell in cells if (p := results.entries[cell]["provenance"])]
    machines = [p["hardware"] for p in known]
    return {
        "hardware": sorted(
            {f"{m['cpu']}, {m['cores']} cores, {m['memory_gib']} GiB, device {m['device']}" for m in machines}
        ),
        "versions": sorted({", ".join(f"{name} {version}" for name, version in p["packages"].items()) for p in known}),
        "commits": sorted({p["commit"] for p in known if p["commit"]}),
        "cells": len(cells),
        "wall_minutes": sum(p["wall_seconds"] for p in known) / 60,
        "gpu_minutes": sum(map(gpu_seconds, known)) / 60,
        "peak_memory_mib": max((p["peak_memory_mib"] for p in known), default=0),
        "energy_watt_hours": energy(known),
        "predicted": predicted(known),
        "ways": ways(known),
        **cost(results, known),
    }


def of_section(section: dict[str, Any], results: Results) -> dict[str, None]:
    return {cell: None for row in section["rows"] for cell in row["cells"] if cell in results.entries}


def gpu_seconds(provenance: dict[str, Any]) -> float:
    """Of all its devices: a cell of several processes has one each."""
    return float(provenance["gpu_seconds"]) * int(provenance.get("processes") or 1)


def energy(known: list[dict[str, Any]]) -> dict[str, float]:
    """Watt-hours of the cells together, of `cpu` and `gpu`, as far as counters could be read for all of them: a part
    would be taken for the whole."""
    told = [p.get("energy_joules") or {} for p in known]
    return {kind: sum(t[kind] for t in told) / HOUR for kind in ("cpu", "gpu") if told and all(kind in t for t in told)}


def cost(results: Results, known: list[dict[str, Any]]) -> dict[str, Any]:
    """At the configured price of an hour of a GPU; of a machine, for cells that had none. None without a price."""
    report = results.grid["experiment"].get("report", {})  # a grid of before there was one has none
    price = report.get("price_per_hour")
    seconds = sum(gpu_seconds(p) or float(p["wall_seconds"]) for p in known)
    return {
        "price_per_hour": price,
        "currency": report.get("currency", ""),
        "cost": None if price is None else price * seconds / HOUR,
    }
