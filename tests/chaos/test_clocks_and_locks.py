"""What a machine does to a grid without killing anything: clocks that jump, and a database that others write to."""

import subprocess
import sys
import time
from pathlib import Path

from contrastive.runs import claim, store
from tasks.record import record_cell
from tasks.sync import differences_of_run
from tasks.tracking import find_run, open_tracker
from tests import recorded
from tests.waiting import soon

HOLDER = """
import sys, time
from pathlib import Path
from contrastive.runs import claim, store
claim.LEASE = 12.0  # a beat every 2 s, and a look at it every second
run, jump, clock, begin = Path(sys.argv[1]), float(sys.argv[2]), time.time, time.time()
time.time = lambda: clock() + jump * int(2 * (clock() - begin))  # every half second
print("begins", flush=True)
with claim.attempt(run, "train", lambda: store.damage(run, "TRAINED") is None) as work:
    if work is None:
        print("finished by another")
        sys.exit()
    print("holds", flush=True)
    (work.folder / "weights").write_text("trained")
    sys.stdin.readline()
    work.publish("TRAINED")
    print("published")
"""


def test_a_clock_that_jumps_an_hour_breaks_no_lease(tmp_path: Path):
    """Forwards and backwards, of the one that works as of the one that waits, again and again, between beats too."""
    begun = [(tmp_path / str(jump), begin(tmp_path / str(jump), jump)) for jump in (3600, -3600)]
    for _, holder in begun:
        assert said(holder) == "begins" and said(holder) == "holds"
    others = [begin(run, jump) for run, _ in begun for jump in (3600, -3600)]
    assert [said(waiting) for waiting in others] == ["begins"] * 4
    soon(lambda: all(store.read_json(run / "claim.json")["beat"] >= 2 for run, _ in begun))  # through seven jumps
    for run, holder in begun:
        assert holder.communicate("publish\n", timeout=60)[0] == "published\n"
        assert [known["outcome"] for known in claim.attempts(run)] == ["done"]
    assert [waiting.communicate(timeout=60)[0] for waiting in others] == ["finished by another\n"] * 4


def begin(run: Path, jump: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLDER, str(run), str(jump)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


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
    assert run is not None and run.info.status == "FINISHED" and list(differences_of_run(client, run, folder)) == []
    assert store.finished(folder)
