"""What `ablate plan` had said of the cells before they ran, beside what they took."""

from statistics import median

from contrastive.runs.recorded import Provenance
from reports.bilingual import Words

GIB = 2**30


def predicted(provenances: list[Provenance]) -> Words | None:
    """One line of all cells that a time was predicted for; nothing where there is none."""
    cells = [(p, p.predicted) for p in provenances if p.predicted and p.predicted.seconds > 0]
    if not cells:
        return None
    before = sum(said.seconds for _, said in cells) / 60
    after = sum(p.wall_seconds for p, _ in cells) / 60
    ratios = sorted(p.wall_seconds / said.seconds for p, said in cells)
    middle, low, high = (f"{ratio:.2f}" for ratio in (median(ratios), ratios[0], ratios[-1]))
    english = [
        f"Predicted: {before:.1f} minutes for {len(cells)} cells; measured: {after:.1f}",
        f"measured by predicted of a cell: {middle} (median), {low} to {high}",
    ]
    chinese = [
        f"预测：{len(cells)} 个单元 {before:.1f} 分钟；实测：{after:.1f} 分钟",
        f"单元的实测与预测之比：中位数 {middle}，范围 {low} 至 {high}",
    ]
    if sized := [(p.peak_memory_bytes, said.memory_bytes) for p, said in cells if p.peak_memory_bytes]:
        measured, foreseen = (f"{max(sizes) / GIB:.2f} GiB" for sizes in zip(*sized, strict=True))
        english.append(f"largest memory of a cell: predicted {foreseen}, measured {measured}")
        chinese.append(f"单元最大内存：预测 {foreseen}，实测 {measured}")
    return Words("; ".join(english), "；".join(chinese))
