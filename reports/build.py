"""The report of one experiment: MLflow in, README.md and figures out, byte for byte the same from the same runs."""

import contextlib
import math
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from reports import tables
from reports.figures import curves, tsne
from reports.load import Results, load


def build(experiment: str, uri: str, output: Path) -> Path:
    """Writes the report into a new folder and puts it in the place of the old one; returns its README.md."""
    results = load(experiment, uri)
    output.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=output.parent, prefix=f".{output.name}."))
    try:
        (fresh / "README.md").write_text(render(results, fresh), encoding="utf-8")
        fresh.chmod(0o755)
        put(fresh, output)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return output / "README.md"


def put(fresh: Path, output: Path) -> None:
    """Move a folder into the place of another one, also while somebody else does the same."""
    aside = fresh.with_name(fresh.name + ".old")
    while True:
        with contextlib.suppress(FileNotFoundError):
            os.replace(output, aside)
        try:
            os.replace(fresh, output)
        except OSError:
            if not output.exists():
                raise
        else:
            return
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def render(results: Results, folder: Path) -> str:
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    templates.filters |= {"plain": tables.plain, "code": tables.code}
    return templates.get_template("report.md.j2").render(
        experiment=results.grid["experiment"],
        problems=problems(results),
        sections=[
            describe(section, name, results, folder)
            for section, name in zip(results.grid["sections"], file_names(results.grid["sections"]), strict=True)
        ],
        seeds=len(results.grid["experiment"]["seeds"]),
        standard_errors=standard_errors(results),
        class_counts=class_counts(results),
        references=results.grid["references"],
        footer=footer(results),
    )


def file_names(sections: list[dict[str, Any]]) -> list[str]:
    """The beginning of each section's file names, from its title; one that is already taken gets its number."""
    names: list[str] = []
    for number, section in enumerate(sections, start=1):
        name = re.sub(r"[^a-z0-9]+", "-", section["title"].lower())[:60].strip("-") or f"section-{number}"
        while name in names:
            name += f"-{number}"
        names.append(name)
    return names


def describe(section: dict[str, Any], name: str, results: Results, folder: Path) -> dict[str, Any]:
    path, drawn = folder / "figures" / name, []
    if section["show"]["tsne"]:
        drawn.append(tsne.draw(section, results, path))
    if section["show"]["curves"]:
        drawn.append(curves.draw(section, results, path))
    return {
        "title": section["title"],
        "note": section["note"],
        "missing": missing(section, results),
        "collapsed": collapsed(section, results),
        "tables": tables.section_tables(section, results),
        "redundant": redundant(section, results),
        "figures": [{"path": figure.path, "alt": figure.alt.en} for figure in drawn if figure],
    }


def missing(section: dict[str, Any], results: Results) -> list[str]:
    """Cells of a section without a result, by name: a table with a hole says so above itself."""
    found = []
    for row in section["rows"]:
        for cell, seed in zip(row["cells"], row["seeds"], strict=True):
            if cell not in results.cells.index:
                reason = results.grid["failed"].get(cell, "not in MLflow")
                found.append(f"{row['label']}, seed {seed}: {reason}")
            elif results.cells.loc[cell, "status"] != "finished":
                entry = results.cells.loc[cell]
                found.append(f"{row['label']}, seed {seed}: {entry['status']}: {entry['error']}")
    return found


def collapsed(section: dict[str, Any], results: Results) -> list[str]:
    """Cells whose training ended with all sentence vectors in one direction; their scores measure nothing."""
    since = {cell: (p or {}).get("collapsed_since") for cell, p in results.cells["provenance"].items()}
    alarms = [name for name in results.scores.columns if re.fullmatch(r"(.+/)?[a-z]+\.collapsed", name)]
    return [
        f"{row['label']}, seed {seed}: the {split} embeddings{of and f' ({of})'} lie in one direction"
        for name in alarms
        for of, _, split in [name.removesuffix(".collapsed").rpartition("/")]
        for row in section["rows"]
        for cell, seed in zip(row["cells"], row["seeds"], strict=True)
        if results.scores[name].get(cell) == 1
    ] + [
        f"{row['label']}, seed {seed}: all sentence vectors lie in one direction, since step {since[cell]}"
        for row in section["rows"]
        for cell, seed in zip(row["cells"], row["seeds"], strict=True)
        if since.get(cell) is not None
    ]


def redundant(section: dict[str, Any], results: Results) -> bool:
    """Whether a table shows ARI and NMI side by side where both follow from one accuracy."""
    shown = [value for value in section["show"]["table"]["values"] if value.endswith((".ari", ".nmi"))]
    units = [results.units[cell] for row in section["rows"] for cell in row["cells"] if results.units.get(cell)]
    return len(shown) > 1 and bool(units) and all(known.get(value) for known in units for value in shown)


def problems(results: Results) -> list[str]:
    found = []
    kept = results.grid["stale_kept"]
    if kept:
        found.append(
            f"{len(kept)} cells were kept although the code that computed them has changed since (--keep-stale)."
        )
    commits = sorted({p["commit"] for p in results.cells["provenance"] if p})
    if len(commits) > 1:
        found.append(
            f"The cells were computed at {len(commits)} commits: {', '.join(c or 'unknown' for c in commits)}."
        )
    devices = sorted({p["hardware"]["device"] for p in results.cells["provenance"] if p})
    if len(devices) > 1:
        found.append(f"The cells ran on different devices: {', '.join(devices)}.")
    return found


def cells_by_data(results: Results) -> dict[str, list[str]]:
    """Name of the data → the cells of it that MLflow knows."""
    found: dict[str, list[str]] = {}
    for section in results.grid["sections"]:
        for row in section["rows"]:
            found.setdefault(row["data"], []).extend(cell for cell in row["cells"] if cell in results.cells.index)
    return found


def standard_errors(results: Results) -> list[dict[str, Any]]:
    """What chance alone makes of one accuracy on so many test texts."""
    if "test.accuracy" not in results.scores:
        return []
    found = []
    for name, cells in cells_by_data(results).items():
        counts = counts_of(results, cells).get("test")
        mean = float(results.scores["test.accuracy"].reindex(cells).mean())
        if counts and math.isfinite(mean):
            count = sum(counts.values())
            found.append({"data": name, "count": count, "value": (mean * (1 - mean) / count) ** 0.5})
    return found


def class_counts(results: Results) -> list[str]:
    """A table for each data set."""
    found = []
    for name, cells in cells_by_data(results).items():
        if counts := counts_of(results, cells):
            frame = pd.DataFrame(counts).T.fillna(0).astype(int)
            lines = [
                ["Split" + (f" of {tables.plain(name)}" if name else ""), *map(tables.plain, frame.columns), "all"]
            ]
            lines += [
                [str(split), *(str(n) for n in row), str(sum(row))]
                for split, row in zip(frame.index, frame.to_numpy(), strict=True)
            ]
            found.append(tables.markdown(lines))
    return found


def counts_of(results: Results, cells: list[str]) -> dict[str, dict[str, int]]:
    known = [provenance for provenance in results.cells["provenance"].reindex(cells) if provenance]
    return known[0]["class_counts"] if known else {}


def footer(results: Results) -> dict[str, Any]:
    known = [p for p in results.cells["provenance"] if p]
    machines = [p["hardware"] for p in known]
    hardware = sorted(
        {f"{m['cpu']}, {m['cores']} cores, {m['memory_gib']} GiB, device {m['device']}" for m in machines}
    )
    versions = sorted({", ".join(f"{name} {version}" for name, version in p["packages"].items()) for p in known})
    return {
        "hardware": hardware,
        "versions": versions,
        "commits": sorted({p["commit"] for p in known if p["commit"]}),
        "cells": len(results.cells),
        "wall_minutes": sum(p["wall_seconds"] for p in known) / 60,
        "gpu_minutes": sum(p["gpu_seconds"] for p in known) / 60,
        "peak_memory_mib": max((p["peak_memory_mib"] for p in known), default=0),
    }
