"""What a machine does to a grid without killing anything: a database that others write to."""

import subprocess
import sys
import time
from pathlib import Path

from contrastive.runs import store
from tasks.record import record_cell
from tasks.sync import differences_of_run
from tasks.tracking import find_runs, open_tracker
from tests import recorded

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
    run, *_ = find_runs(client, "small", "ablate.cell", "c0")
    assert run.info.status == "FINISHED" and list(differences_of_run(client, run, folder)) == []
    assert store.finished(folder)
