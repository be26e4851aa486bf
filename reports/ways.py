"""How the cells were computed faster, as far as that changes the last digits of their numbers."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from contrastive.runs.recorded import Provenance
from reports.messages import Said, _, joined

PLAIN = {"kernels": "plain", "reuse": "none"}
NAMES = {
    ("kernels", "plain"): _("plain kernels"),
    ("kernels", "fast"): _("fast kernels"),
    ("reuse", "full"): _("frozen blocks kept in full precision"),
    ("reuse", "half"): _("frozen blocks kept in half precision"),
}


def ways(provenances: list[Provenance]) -> Said | None:
    """One line; nothing where every cell was computed the plain way, or none says how."""
    counts = Counter(_way(p.speed) for p in provenances if p.speed is not None)
    if not counts.keys() - {tuple(PLAIN.items())}:
        return None
    said = [
        _("{way} ({count} cells)", way=_named(way), count=count) if len(counts) > 1 else _named(way)
        for way, count in sorted(counts.items())
    ]
    return _("Computed with {ways}", ways=joined(said, _("; ")))


def _way(speed: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((name, speed.get(name, plain)) for name, plain in PLAIN.items())


def _named(way: tuple[tuple[str, str], ...]) -> Said:
    names = [NAMES[choice] for choice in way if choice in NAMES]
    return joined(names, _(" and "))
