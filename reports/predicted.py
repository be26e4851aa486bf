"""What `ablate plan` had said of the cells before they ran, beside what they took."""

from statistics import median

from contrastive.runs.recorded import Provenance
from reports.messages import Said, _, joined

GIB = 2**30


def predicted(provenances: list[Provenance]) -> Said | None:
    """One line of all cells that a time was predicted for; nothing where there is none."""
    cells = [(p, p.predicted) for p in provenances if p.predicted and p.predicted.seconds > 0]
    if not cells:
        return None
    before = sum(said.seconds for _, said in cells) / 60
    after = sum(p.wall_seconds for p, _ in cells) / 60
    ratios = sorted(p.wall_seconds / said.seconds for p, said in cells)
    middle, low, high = (f"{ratio:.2f}" for ratio in (median(ratios), ratios[0], ratios[-1]))
    said = [
        _("Predicted: {before} minutes for {cells} cells; measured: {after}",
          before=f"{before:.1f}", cells=len(cells), after=f"{after:.1f}"),
        _("measured by predicted of a cell: {middle} (median), {low} to {high}", middle=middle, low=low, high=high),
    ]  # fmt: skip
    if sized := [(p.peak_memory_bytes, said.memory_bytes) for p, said in cells if p.peak_memory_bytes]:
        measured, foreseen = (f"{max(sizes) / GIB:.2f} GiB" for sizes in zip(*sized, strict=True))
        said.append(
            _(
                "largest memory of a cell: predicted {foreseen}, measured {measured}",
                foreseen=foreseen,
                measured=measured,
            )
        )
    return joined(said, _("; "))
