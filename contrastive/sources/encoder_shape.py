"""How many of an encoder's lowest blocks are computed apart from those that train."""

from contrastive.config.cell import Cell
from contrastive.config.objective import Objective
from contrastive.sources import locate


def cut(cell: Cell) -> int:
    """The blocks below the first that trains, and below all that the cell's view looks into.

    0 where nothing can be computed apart: nothing is frozen, or processes share the weights of a block.
    """
    tuned = cell.encoder.tune.last_blocks
    if tuned is None or cell.training.sharding is not None or locate.has_convolution(cell.encoder):
        return 0
    blocks = locate.shape(cell.encoder)[0]
    return max(0, min(blocks - tuned, lowest(cell.objective, blocks)))


def lowest(objective: Objective, blocks: int) -> int:
    """The first block that has to be computed with the others for a view: what goes into it may be given."""
    facts = objective.view_facts()
    if facts.looks_into == "last":
        return blocks  # attention asks for what goes into the last block, which trains where it is allowed
    if facts.looks_into == "all":
        return 0
    if facts.looks_into == "middle":
        block = middle(blocks) if objective.middle is None else objective.middle
    else:
        block = min(objective.layers or (0,))
    return block + (not facts.attention)


def middle(blocks: int) -> int:
    """The block half way up."""
    return (blocks - 1) // 2
