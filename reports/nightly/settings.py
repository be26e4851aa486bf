"""What the nightly verdict is given: a file of its own beside the panel, which is an ordinary experiment."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

TIMINGS = {  # → whether more is better
    "training_seconds": False,
    "texts_per_second": True,
    "evaluation_seconds": False,
    "report_seconds": False,
}


Margin = Annotated[float, Field(gt=0, description="a smaller change is none")]


class Nightly(BaseModel):
    """Settings of the verdict."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    baseline: int = Field(1, ge=1, description="raise it to accept what is: tonight is the new first night")
    window: int = Field(10, ge=2, description="nights that timings are compared with, the first ones of an environment")
    false_alarms: float = Field(0.005, gt=0, le=0.2, description="share of nights that may be called without a cause")
    quality: Mapping[str, Margin] = Field(min_length=1, description="score → margin, e.g. test.accuracy: 0.005")
    speed: Margin = Field(description="the margin of every timing, as a share: 0.1 is ten percent")
