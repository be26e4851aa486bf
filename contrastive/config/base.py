"""Base class, common field types and shared validators of the experiment schema."""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
Positive = Annotated[int, Field(ge=1, le=2**31 - 1)]
Count = Annotated[int, Field(ge=0)]
Seed = Annotated[int, Field(ge=0, le=2**31 - 1)]
Column = Annotated[str, Field(min_length=1)]
Weights = Annotated[str, StringConstraints(pattern=r"^(package|hf|file):.+")]


class Settings(BaseModel):
    """Base class of the schema: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def conflict(self) -> str:
        """Return why these settings cannot be combined; empty if they can."""
        return ""

    @model_validator(mode="after")
    def _no_conflict(self) -> Self:
        if reason := self.conflict():
            raise ValueError(reason)
        return self


def check_name(kind: str, name: str, table: Mapping[str, Any]) -> None:
    if name not in table:
        raise ValueError(f"there is no {kind} `{name}`; there are {', '.join(sorted(table))}")


def _in_order(value: tuple[float, float] | None) -> tuple[float, float] | None:
    if value is not None and not 0 < value[0] <= value[1]:
        raise ValueError(f"{list(value)}: give the least and the most of the area, such as [0.2, 1]")
    return value


Share = Annotated[float, Field(ge=0, le=1)]
Dropout = Annotated[float, Field(ge=0, lt=1)]
Area = Annotated[tuple[Share, Share] | None, AfterValidator(_in_order)]
