"""Settings of images: their size, and how training changes them. Imports no torch."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from contrastive.config.base import Settings


def _in_order(value: tuple[float, float] | None) -> tuple[float, float] | None:
    if value is not None and not 0 < value[0] <= value[1]:
        raise ValueError(f"{list(value)}: give the least and the most of the area, such as [0.2, 1]")
    return value


Share = Annotated[float, Field(ge=0, le=1)]
Area = Annotated[tuple[Share, Share] | None, AfterValidator(_in_order)]


class Images(Settings):
    """The data are images: resized to a square, so that the shorter side fits, and cut at the centre."""

    size: int = Field(ge=4, le=1024, description="height and width in pixels")
    channels: Literal[1, 3] = Field(3, description="3: red, green and blue; 1: grey")

    def values(self) -> int:
        """Return the number of values of an image."""
        return self.channels * self.size**2


class Augment(Settings):
    """Random changes of an image, drawn anew in every pass of training, in the order of these settings.

    A setting that is left out changes nothing.
    """

    crop: Area = Field(
        None, description="least and most of the area that a crop keeps, resized to the whole; SimCLR: [0.08, 1]"
    )
    flip: bool = Field(False, description="mirror every second image, left to right")
    shift: Share = Field(0.0, description="move by up to this part of the side, in both directions")
    rotate: float = Field(0.0, ge=0, le=180, description="turn by up to so many degrees, to both sides")
    color: float = Field(
        0.0, ge=0, le=1, description="strength of changes of brightness, contrast, saturation and hue; SimCLR: 1"
    )
    gray: Share = Field(0.0, description="part of the images that lose their colours")
    blur: float = Field(0.0, ge=0, le=10, description="blur every second image by up to so many pixels (sigma)")
    erase: Share = Field(0.0, description="blacken one rectangle of up to this part of the area")

    def conflict(self) -> str:
        if not any(value for _, value in self):
            return "augment changes nothing: name a change, such as crop: [0.2, 1], or leave augment out"
        return ""
