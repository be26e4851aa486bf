"""How the cells were computed faster, as far as that changes the last digits of their numbers."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from contrastive.runs.recorded import Provenance
from reports.bilingual import Words

PLAIN = {"kernels": "plain", "reuse": "none"}
NAMES = {
    ("kernels", "plain"): Words("plain kernels", "普通算子"),
    ("kernels", "fast"): Words("fast kernels", "快速算子"),
    ("reuse", "full"): Words("frozen blocks kept in full precision", "冻结层输出以全精度保存"),
    ("reuse", "half"): Words("frozen blocks kept in half precision", "冻结层输出以半精度保存"),
}


def ways(provenances: list[Provenance]) -> Words | None:
    """One line; nothing where every cell was computed the plain way, or none says how."""
    counts = Counter(_way(p.speed) for p in provenances if p.speed is not None)
    if not counts.keys() - {tuple(PLAIN.items())}:
        return None
    many = len(counts) > 1
    english = [_named(way).en + (f" ({count} cells)" if many else "") for way, count in sorted(counts.items())]
    chinese = [_named(way).zh + (f"（{count} 个单元）" if many else "") for way, count in sorted(counts.items())]
    return Words(f"Computed with {'; '.join(english)}", f"计算方式：{'；'.join(chinese)}")


def _way(speed: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((name, speed.get(name, plain)) for name, plain in PLAIN.items())


def _named(way: tuple[tuple[str, str], ...]) -> Words:
    names = [NAMES[choice] for choice in way if choice in NAMES]
    return Words(" and ".join(name.en for name in names), "、".join(name.zh for name in names))
