"""What Prefect's server has not been told yet: each change of a task is an event that waits in this process's memory.

Cells of no work at all end faster than the server notes it. Prefect itself would let the events pile up without end
(7 KB each, nine a cell), and at the end try each of them for seconds against a server that is gone.
"""

import time

from prefect.events.worker import EventsWorker

ROOM = 5_000  # events that may wait
PATIENCE = 2.0  # seconds in which a server that is there takes at least one


def catch_up(room: int = ROOM) -> bool:
    """Wait until no more than so many events are left, as long as they can be sent; whether that was reached.

    Sent is not yet received: Prefect's client learns of a dead server at the next event after its connection broke.
    """
    waiting = EventsWorker.instance()._queue
    least, since = waiting.qsize(), time.monotonic()
    while least > room:
        if time.monotonic() - since > PATIENCE:
            return False
        time.sleep(0.05)
        if (left := waiting.qsize()) < least:
            least, since = left, time.monotonic()
    return True


def send_rest() -> None:
    """Send what is left while there is a server to take it, and throw away what it does not take."""
    waiting = EventsWorker.instance()._queue
    if not catch_up(0):
        with waiting.mutex:
            waiting.queue.clear()
