"""Registry of post-processing of embeddings (first, whiten, standardise, flow): one line in `POSTS` each.

An entry takes the training embeddings and returns a function that transforms any vectors. An entry with a keyword
`columns` can reduce the dimensions: `whiten:256` passes 256.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from contrastive.errors import UserError
from contrastive.evaluation.metrics.types import check_finite
from contrastive.evaluation.post.flow import flow
from contrastive.evaluation.post.whiten import first, standardise, whiten

POSTS: dict[str, Callable[..., Any]] = {
    "first": first,
    "whiten": whiten,
    "standardise": standardise,
    "flow": flow,
}


def fit_post(
    name: str, train: Float[np.ndarray, "n d"]
) -> Callable[[Float[np.ndarray, "m d"]], Float[np.ndarray, "m k"]]:
    """Fit a post-processing (`first:256`, `whiten`, `whiten:256`, `standardise`, `flow`) on training embeddings."""
    if len(train) < 2:
        raise UserError(
            f"{name} is fitted on training embeddings and needs at least 2, but there are {len(train)}; "
            "use more training texts"
        )
    check_finite(train, "training embeddings", f"{name}: ")
    base, _, columns = name.partition(":")
    fit: Any = POSTS[base]
    return fit(train, columns=int(columns)) if columns else fit(train)
