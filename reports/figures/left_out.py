"""No picture may cost a report: one that cannot be drawn is left out, and its place says why."""

import errno
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from reports.messages import Said

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
logger = logging.getLogger(__name__)
Drawn = TypeVar("Drawn")


@dataclass(frozen=True)
class LeftOut:
    """What stands in the place of a picture that could not be drawn."""

    kind: Said
    reason: str


def drawn_or_left_out(kind: Said, draw: Callable[[], Drawn]) -> Drawn | LeftOut:
    """The picture, or why there is none; the log has the whole error."""
    try:
        return draw()
    except Exception as error:
        if isinstance(error, OSError) and error.errno in NO_ROOM:  # that is no fault of the picture
            raise
        logger.warning("The report goes without one picture (%s).", kind, exc_info=error)
        said = error.strerror if isinstance(error, OSError) else str(error)  # which would name a path of this machine
        return LeftOut(kind, f"{type(error).__name__}: {said or 'no more is known'}")
