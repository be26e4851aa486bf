"""What the nightly verdict is given: a file of its own beside the panel, which is an ordinary experiment."""

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field

TIMINGS = {  # → whether more is better
    "training_seconds": False,
    "texts_per_second": True,
    "evaluation_seconds": False,
    "report_seconds": False,
}


class Limits(BaseModel):
    """What of a change matters, and how sharp a night has to see. Of a timing both are shares: 0.1 is ten percent."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    practical: float = Field(gt=0, description="a smaller change is none")
    widest: float = Field(gt=0, description="where only larger changes than this would be seen, nothing can be said")


class Nightly(BaseModel):
    """Settings of the verdict."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    baseline: int = Field(1, ge=1, description="raise it to accept what is: a new window of nights is pinned")
    window: int = Field(10, ge=2, description="nights of the pinned baseline, the first ones of an environment")
    false_alarms: float = Field(0.005, gt=0, le=0.2, description="share of nights that may be called without a cause")
    quality: Mapping[str, Limits] = Field(min_length=1, description="score → limits, e.g. test.accuracy")
    speed: Limits = Field(description="the limits of every timing")
