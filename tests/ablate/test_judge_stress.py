"""`ablate judge` under stress: what a run depends on, full disks, damaged files, exit codes, runs that misbehave."""

import json
import os
import re
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from ablate.commands import read_lines, run_command
from contrastive.errors import UserError
from contrastive.runs import store
from flows.cli import app

CHECKOUT = Path(__file__).parents[2]
METRIC = "loss: ([-+0-9.e]+)"
ENVIRONMENT = {"PYTHONPATH": str(CHECKOUT), "PYTHONDONTWRITEBYTECODE": "1"}  # a full disk would cut a .pyc


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def judge(*more: str, baseline: str = "sh train.sh {seed}", candidate: str = "sh train.sh {seed} 1"):
    words = ["judge", "--baseline", baseline, "--candidate", candidate, "--metric", METRIC, "--higher"]
    return CliRunner().invoke(app, [*words, *more])


def program(*words: str, limit: int | None = None, before: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own, with files of at most `limit` bytes."""
    begin = f"{before}\nfrom flows.cli import main\nmain()"
    return subprocess.run(
        [sys.executable, "-c", begin, *words],
        capture_output=True,
        text=True,
        env=os.environ | ENVIRONMENT,
        preexec_fn=limit and (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))),
    )


def count_runs(done) -> int:
    """Return how many runs a call began."""
    assert done.exit_code in (0, 1, 2), done.output + repr(done.exception)
    return len(re.findall(r"^(?:baseline|candidate), seed", done.output, re.MULTILINE))


@pytest.mark.full
def test_a_full_disk_is_named_and_nothing_is_lost(place):
    """Files of at most 150 bytes: the commands and one run fit."""
    words = ("judge", "--folder", "f", "--baseline", "echo loss: {seed}", "--candidate", "echo loss: 1{seed}")
    words += ("--metric", METRIC, "--higher", "--max-runs", "4")
    full = program(*words, limit=150)
    assert full.returncode == 3 and "the disk is full" in full.stderr and "failed twice" not in full.stderr
    assert len(read_lines(place / "f" / "runs.jsonl")) == 1
    again = program(*words)
    assert again.returncode == 2 and "1 run reused" in again.stderr


def test_a_run_that_takes_too_long_ends_with_all_its_processes(place):
    slow = "sleep 77 & setsid sleep 77 & echo $! {seed} >> pids; sleep 77"
    began = time.monotonic()
    done = judge("--timeout", "1s", baseline=slow, candidate=slow + " ")
    assert done.exit_code == 3 and "baseline failed twice with seed 0: took longer than 1 s" in done.output
    assert time.monotonic() - began < 30 and not sleepers("77")
    assert "--timeout `x` is not a time" in str(judge("--timeout", "x").exception)


def sleepers(seconds: str) -> list[int]:
    return [each.pid for each in psutil.process_iter(["cmdline"]) if each.info["cmdline"] == ["sleep", seconds]]


def test_a_daemon_ends_with_its_run(place):
    daemon = "setsid sh -c 'sleep 78 & sleep 78' & echo loss: {seed}"
    began = time.monotonic()
    assert count_runs(judge("--max-runs", "4", baseline=daemon, candidate=f"{daemon}1")) == 4
    assert not sleepers("78") and time.monotonic() - began < 40


def test_of_a_long_log_the_last_number_counts_and_a_later_nan_is_seen(place):
    filler = "yes 'some words' | head -c 9000000"
    for last, expected in (("echo loss: 2", 2.0), ("echo loss: nan", None)):
        value, why = run_command(f"echo loss: 1; {filler}; {last}; {filler}", METRIC, "log")
        assert value == expected and (value is not None or "printed `loss: nan` last" in why)


def test_the_package_is_imported_without_what_it_needs_for_tables():
    code = "import sys, ablate; print({'numpy', 'pandas'} & {*sys.modules}, dir(ablate), hasattr(ablate, 'choose'))\n"
    code += "from ablate import Verdicts; print(ablate.judge.__module__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | ENVIRONMENT)
    assert done.stdout.splitlines() == [
        "set() ['Verdicts', 'judge', 'judge_table', 'load'] False",
        "ablate.verdicts",
    ], done


@pytest.mark.parametrize("more", [(), pytest.param(("ledger", "night"), marks=pytest.mark.full)])
def test_a_judge_that_runs_commands_stays_small(place, more):
    """Without looks, which simulate their cut-offs once; memory in KiB."""
    before = "import atexit, sys; heavy = {'matplotlib', 'mlflow', 'pandas', 'pyarrow', 'torch'}\n"
    used = "int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])"  # not that of the parent
    before += f"atexit.register(lambda: print(sorted(heavy & {{*sys.modules}}), {used}))"
    words = ["--baseline", "false {seed}", "--candidate", "false 1{seed}", "--metric", METRIC, "--higher"]
    done = program("judge", *more, *words, before=before)
    loaded, memory = done.stdout.rsplit(maxsplit=1)
    assert "baseline failed twice" in done.stderr and loaded == "[]" and int(memory) < 130_000, done.stdout


RUN = {"side": "baseline", "seed": 0, "value": 1.0, "seconds": 1.0, "unit": ""}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"side": "ba\n', "JSON"),
        (b"\xff\xfe\n", "line 2"),
        (b'{"side": "baseline", "seed": 1, "value": 1.0}\n', "seconds"),
        (json.dumps(RUN | {"seed": "1"}).encode(), "seed"),
        (b'{"side": "baseline", "seed": 1, "value": NaN, "seconds": 1.0, "unit": ""}', "value"),
    ],
)
def test_a_damaged_file_of_runs_is_named_with_its_line(place, line, why):
    (place / "f").mkdir()
    (place / "f" / "runs.jsonl").write_bytes(json.dumps(RUN).encode() + b"\n" + line)
    done = judge("--folder", "f")
    assert isinstance(done.exception, UserError) and re.search(f"line 2.*{why}|{why}", str(done.exception))


LEDGER = ("judge", "ledger", "night")
NEW = ("--baseline", "sh train.sh {seed} 0", "--metric", METRIC, "--higher")


def propose(candidate: str | None, *more: str):
    return CliRunner().invoke(app, [*LEDGER, *(["--candidate", candidate] if candidate else []), *more])


@pytest.fixture
def kept(place):
    """Begin a ledger that has kept its first proposal."""
    (place / "train.sh").write_text("echo loss: $(( $1 * 5 % 7 + $2 ))", encoding="utf-8")
    done = propose("sh train.sh {seed} 100", *NEW)
    assert done.exit_code == 0, done.output + repr(done.exception)
    return place / "night"


def test_the_exit_codes_of_a_ledger_can_be_trusted(kept, place):
    count = len(read_lines(kept / "runs.jsonl"))
    for more in ((), NEW):  # kept already
        assert propose("sh train.sh {seed} 100", *more).exit_code == 0
    assert len(read_lines(kept / "runs.jsonl")) == count
    assert propose("false {seed}").exit_code == 3
    (place / "train.sh").write_text("exit 9", encoding="utf-8")
    broken = propose("echo loss: {seed}")
    assert broken.exit_code == 4 and "baseline failed twice" in broken.output
    assert len(read_lines(kept / "ledger.jsonl")) == 2
    (place / "train.sh").write_text("echo loss: $(( $1 * 4 % 7 + $2 ))", encoding="utf-8")  # mended, but other code
    assert "is the baseline's own command" in str(propose("sh train.sh {seed} 100").exception)
    assert program(*LEDGER, "--candidate", "x").returncode == program(*LEDGER, "--nonsense").returncode == 5


def test_a_ledger_waits_for_another_call(kept):
    with ThreadPoolExecutor(1) as other, store.locked(kept / "lock"):
        waiting = other.submit(propose, "sh train.sh {seed} -100")
        time.sleep(1)
    done = waiting.result()
    assert done.exit_code == 1 and done.output.count("is at work") == 1


DAMAGES = [
    ("ledger.jsonl", lambda lines: [lines[0][:30], *lines[1:]], "ledger.jsonl, line 1"),
    ("ledger.jsonl", lambda lines: lines[1:], "line 1 .*of proposal 1"),
    ("ledger.jsonl", lambda lines: [lines[0].replace("kept", "dropped"), *lines[1:]], "line 1"),
    ("runs.jsonl", lambda lines: [*lines[:2], "\udcff", *lines[3:]], "runs.jsonl, line 3"),
    ("runs.jsonl", lambda lines: lines[:-1], "ledger.jsonl, line 2 .*0 runs of proposal 2"),
    ("runs.jsonl", lambda lines: lines[1:], "runs.jsonl, line 1 .*here belongs a run of the baseline with seed 0"),
    ("runs.jsonl", lambda lines: [*lines[:7], *lines[8:]], "line 8 .*here belongs|line 1 .*lacks runs of its base"),
    ("ledger.json", lambda lines: ["{"], "ledger.json, line 1"),
    ("ledger.json", lambda lines: [], "ledger.json, line 1"),
]


def test_a_damaged_ledger_is_named_with_its_line(kept):
    assert propose("sh train.sh {seed} -100").exit_code == 1
    for name, change, why in DAMAGES:
        text = (kept / name).read_text(encoding="utf-8")
        damaged = "".join(f"{line}\n" for line in change(text.splitlines()))
        (kept / name).write_text(damaged, "utf-8", "surrogateescape")
        for candidate in ("sh train.sh {seed} -100", None):  # what is damaged is not counted either
            done = propose(candidate)
            assert isinstance(done.exception, UserError) and re.search(why, str(done.exception)), repr(done.exception)
        (kept / name).write_text(text, encoding="utf-8")
