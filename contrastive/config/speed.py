"""How cells are computed faster: what an experiment file says of it. No part of a cell's identity.

What only avoids repeated work changes no bit of a score. What rounds otherwise is chosen here, and the report names it
(docs/reference/speed.md says how much).
"""

from typing import Literal

from pydantic import Field, model_validator

from contrastive.config.base import Positive, Settings


class Speed(Settings):
    reuse: Literal["none", "full", "half"] = Field(
        "full",
        description="what frozen blocks give for a text is computed once, for cells with tune.frozen_dropout: false, "
        "and kept in full or half precision; none: each pass is computed",
    )
    together: Positive | None = Field(
        None,
        description="cells that train in one process and share each pass of their frozen blocks; left out: as many as "
        "memory holds and devices leave",
    )

    @model_validator(mode="after")
    def _fitting(self) -> "Speed":
        if self.reuse == "none" and (self.together or 1) > 1:
            raise ValueError(f"together: {self.together} shares passes of frozen blocks, and reuse: none computes each")
        return self


USUAL = Speed()
