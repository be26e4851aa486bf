"""What every part of an experiment's schema is made of."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
Positive = Annotated[int, Field(ge=1, le=2**31 - 1)]
Seed = Annotated[int, Field(ge=0, le=2**31 - 1)]
Weights = Annotated[str, StringConstraints(pattern=r"^(package|hf|file):.+")]


class Settings(BaseModel):
    """Base of every part of the schema: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def known(kind: str, name: str, table: Mapping[str, Any]) -> None:
    if name not in table:
        raise ValueError(f"there is no {kind} `{name}`; there are {', '.join(sorted(table))}")
