"""What is done to finished vectors before they are measured, fitted on training embeddings. One file and one line each.

An entry is a function of the training embeddings that gives the function for any vectors. One that keeps a number of
columns asks for it by the keyword `columns`, which `whiten:256` sets to 256.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from contrastive.errors import UserError
from contrastive.evaluation.post.flow import flow
from contrastive.evaluation.post.standardise import standardise
from contrastive.evaluation.post.whiten import whiten

POSTS = {
    "whiten": whiten,
    "standardise": standardise,
    "flow": flow,
}


def fit_post(
    name: str, train: Float[np.ndarray, "n d"]
) -> Callable[[Float[np.ndarray, "m d"]], Float[np.ndarray, "m k"]]:
    """The post-processing `name` (`whiten`, `whiten:256`, `standardise`, `flow`), fitted on training embeddings."""
    if len(train) < 2:
        raise UserError(f"{name} is fitted on training embeddings; it needs at least 2, and there are {len(train)}")
    if bad := int((~np.isfinite(train).all(1)).sum()):
        raise UserError(
            f"{name}: {bad} of {len(train)} training embeddings hold NaN or infinity: the training diverged"
        )
    base, _, columns = name.partition(":")
    made: Any = POSTS[base]
    return made(train, columns=int(columns)) if columns else made(train)
