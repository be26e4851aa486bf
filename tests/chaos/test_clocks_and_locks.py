"""What a machine does to a grid without killing anything: clocks that jump, and a database that others write to."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from contrastive import claim, store
from tasks.tracking import differences, find_run, open_tracker, record_cell
from tests import recorded

pytestmark = pytest.mark.chaos

HOLDER = """
import sys, time
from pathlib import Path
from contrastive import claim, store
claim.LEASE = 1.2
run, jump, clock = Path(sys.argv[1]), float(sys.argv[2]), time.time
with claim.attempt(run, "train", lambda: store.damage(run, "TRAINED") is None) as work:
    if work is None:
        print("finished by another")
        sys.exit()
    print("holds", flush=True)
    (work.folder / "weights").write_text("trained")
    time.sleep(0.5)
    time.time = lambda: clock() + jump
    time.sleep(2.5)
    work.publish("TRAINED")
    print("published")
"""


def test_a_clock_that_jumps_an_hour_breaks_no_lease(tmp_path: Path):
    """Forwards and backwards, of the one that works as of the one that waits for it."""
    begun = [(jump, tmp_path / str(jump), begin(tmp_path / str(jump), jump)) for jump in (3600, -3600)]
    for _, _, holder in begun:
        assert holder.stdout is not None and holder.stdout.readline() == "holds\n"
    others = [begin(run, -jump) for jump, run, _ in begun]
    for (_, run, holder), waiting in zip(begun, others, strict=True):
        assert holder.communicate(timeout=60)[0] == "published\n"
        assert waiting.communicate(timeout=60)[0] == "finished by another\n"
        assert [known["outcome"] for known in claim.attempts(run)] == ["done"]


def begin(run: Path, jump: int) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", HOLDER, str(run), str(jump)], stdout=subprocess.PIPE, text=True)


WRITER = """
import sqlite3, sys, time
database = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
database.execute("create table if not exists other (number)")
print("writes", flush=True)
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    database.execute("begin immediate")
    database.execute("insert into other values (1)")
    time.sleep(0.02)
    database.execute("commit")
"""


def test_a_database_that_sixteen_others_write_to_gets_every_line(home: Path):
    folder = recorded.cell_folder("c0", "ce", 0, 0.5, steps=300)
    command = [sys.executable, "-c", WRITER, str(home / "mlflow.db"), "3"]
    writers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(16)]
    for writer in writers:
        assert writer.stdout is not None and writer.stdout.readline() == "writes\n"
    began = time.monotonic()
    client = open_tracker(home)
    record_cell(client, "small", folder, ["Recipes"])
    assert time.monotonic() - began < 60
    assert [writer.wait(60) for writer in writers] == [0] * 16
    run = find_run(client, "small", "ablate.cell", "c0")
    assert run is not None and run.info.status == "FINISHED" and list(differences(client, run, folder)) == []
    assert store.finished(folder)
