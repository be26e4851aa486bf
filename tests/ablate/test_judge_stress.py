"""`ablate judge` under stress: what a run depends on, full disks, damaged files, exit codes, runs that misbehave."""

import fcntl
import json
import os
import re
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from ablate import commands
from ablate.commands import append, read_lines, run_command
from contrastive.errors import UserError
from flows.cli import app

CHECKOUT = Path(__file__).parents[2]
METRIC = "loss: ([-+0-9.e]+)"
ENVIRONMENT = {"PYTHONPATH": str(CHECKOUT)}


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


def commit() -> None:
    """Put all files of the working directory under Git, but for those named helper.py."""
    for words in (["init", "-q"], ["add", "-A", ":(exclude)helper.py"], ["commit", "-qm", "x"]):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True, capture_output=True)


def count_runs(done) -> int:
    """Return how many runs a call began."""
    assert done.exit_code in (0, 1, 2), done.output + repr(done.exception)
    return len(re.findall(r"^(?:baseline|candidate), seed", done.output, re.MULTILINE))


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("LIFT=$RATE sh train.sh {seed}", "echo loss: $(( ($1 * 3) % 7 + LIFT ))"),
        ("sh train.sh {seed}", "echo loss: $(( ($1 * 3) % 7 + ${RATE} ))"),
        (f"{sys.executable} train.sh {{seed}}", "import os, sys; print('loss:', os.getenv( 'RATE'), sys.argv[1])"),
    ],
)
def test_a_variable_that_a_command_or_its_script_reads_begins_anew(place, monkeypatch, command, script):
    (place / "train.sh").write_text(script, encoding="utf-8")
    words = {"baseline": command, "candidate": f"{command} 1"}
    monkeypatch.setenv("RATE", "1")
    monkeypatch.setenv("OTHER", "1")
    first = count_runs(judge("--max-runs", "4", **words))
    monkeypatch.setenv("OTHER", "2")
    again = judge("--max-runs", "4", **words)
    assert (first, count_runs(again)) == (4, 0) and "4 runs reused" in again.output
    assert re.search(r"commands, \d files?, 1 variable unchanged; --folder NEW begins anew", again.output)
    monkeypatch.setenv("RATE", "2")
    assert count_runs(judge("--max-runs", "4", **words)) == 4


@pytest.mark.parametrize("with_git", [True, False])
def test_an_untracked_module_begins_anew_and_what_a_script_writes_does_not(place, with_git):
    (place / "train.py").write_text(
        "import helper, sys; open('out.txt', 'a').write('x'); print('loss:', helper.x, sys.argv[1])", encoding="utf-8"
    )
    (place / "helper.py").write_text("x = 1", encoding="utf-8")
    if with_git:
        (place / ".gitignore").write_text("out.txt", encoding="utf-8")
        commit()
    words = {"baseline": f"{sys.executable} train.py {{seed}}", "candidate": f"{sys.executable} train.py {{seed}}2"}
    first, again = judge("--max-runs", "4", **words), judge("--max-runs", "4", **words)
    assert (count_runs(first), count_runs(again)) == (4, 0), first.output + again.output
    assert ("commit" in again.output) == with_git and "changed during the runs" not in first.output
    (place / "helper.py").write_text("x = 10", encoding="utf-8")
    assert count_runs(judge("--max-runs", "4", **words)) == 4


def test_results_that_a_run_writes_do_not_begin_anew_and_code_that_it_writes_is_a_warning(place):
    (place / "train.sh").write_text("echo $1$2 >> out.txt; echo loss: $1$2", encoding="utf-8")
    commit()
    first, again = judge("--max-runs", "4"), judge("--max-runs", "4")
    assert (count_runs(first), count_runs(again)) == (4, 0) and "let Git ignore it" not in first.output
    (place / "train.sh").write_text("echo $1$2 >> out.py; echo loss: $1$2", encoding="utf-8")
    first, again = judge("--max-runs", "4"), judge("--max-runs", "4")
    assert (count_runs(first), count_runs(again)) == (4, 4) and "let Git ignore it" in first.output
    kept = [judge("--max-runs", "4", "--folder", "f") for _ in range(2)]
    assert [count_runs(done) for done in kept] == [4, 0]


def test_an_empty_file_of_commands_is_none_and_a_damaged_one_is_refused(place):
    (place / "train.sh").write_text("echo loss: $1$2", encoding="utf-8")
    assert count_runs(judge("--folder", "f", "--max-runs", "4")) == 4
    (place / "f" / "verdict.json").unlink(missing_ok=True)
    (place / "f" / "commands.json").write_text("", encoding="utf-8")
    assert count_runs(judge("--folder", "f", "--max-runs", "4")) == 0
    (place / "f" / "verdict.json").write_text("{", encoding="utf-8")
    (place / "f" / "commands.json").write_bytes(b'["x\xff')
    assert "has runs of other commands" in str(judge("--folder", "f").exception)


@pytest.mark.parametrize("limit", [20, 300])
def test_a_full_disk_is_named_and_nothing_is_lost(place, limit):
    """With 20 bytes the list of commands does not fit; with 300 the output of a run does not."""
    words = (
        "judge",
        "--baseline",
        "sh t {seed}",
        "--candidate",
        "sh t {seed} 1",
        "--metric",
        METRIC,
        "--higher",
        "--folder",
        "f",
    )
    (place / "t").write_text("head -c 1000 /dev/zero | tr '\\0' x && echo && echo loss: $1$2", encoding="utf-8")
    full = program(*words, "--max-runs", "4", limit=limit)
    assert full.returncode == 3 and "the disk is full" in full.stderr and "failed twice" not in full.stderr
    assert read_lines(place / "f" / "runs.jsonl") == []
    assert program(*words, "--max-runs", "4").returncode == 2


def test_a_line_that_does_not_fit_on_the_disk_is_not_begun(place):
    append(place / "x.jsonl", {"a": 1})
    before = (place / "x.jsonl").read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 5, hard))
    try:
        with pytest.raises(OSError, match=r"x\.jsonl"):
            append(place / "x.jsonl", {"b": "long" * 9})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (place / "x.jsonl").read_bytes() == before


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
    for last, found in (("echo loss: 2", 2.0), ("echo loss: nan", None)):
        value, why = run_command(f"echo loss: 1; {filler}; {last}; {filler}", METRIC, "log")
        assert value == found and (value is not None or "printed `loss: nan` last" in why)


def test_a_regular_expression_that_hangs_is_stopped(place, monkeypatch):
    monkeypatch.setattr(commands, "SEARCH", 1)
    with pytest.raises(UserError, match="takes too long"):
        run_command(f"echo {'a' * 60}b", "(a+)+$", "log")


def test_equal_numbers_end_a_duel_after_four_pairs(place):
    done = judge("--json", baseline="echo loss: {seed}", candidate="echo  loss: {seed}")
    assert json.loads(done.output.splitlines()[-1])["runs"] == 8 and "both commands print the same" in done.output


def test_a_known_verdict_loads_no_heavy_package(place):
    words = [
        "judge",
        "--baseline",
        "echo loss: {seed}",
        "--candidate",
        "echo loss: 1{seed}",
        "--metric",
        METRIC,
        "--higher",
    ]
    before = "import atexit, sys; heavy = {'torch', 'mlflow', 'pandas', 'numpy'}\n"
    before += "atexit.register(lambda: print(sorted(heavy & {*sys.modules})))"
    first, again = program(*words), program(*words, before=before)
    assert first.returncode == again.returncode and first.stdout.splitlines() == again.stdout.splitlines()[:-1]
    assert again.stdout.splitlines()[-1] == "[]" and "reused" in again.stderr
    for more in (["--margin", "99"], ["--lower"], ["--max-runs", "6"]):  # another question is not answered by it
        assert program(*words, *more, "--json").stdout != again.stdout


def test_the_package_is_imported_without_what_it_needs_for_tables():
    code = "import sys, ablate; print({'numpy', 'pandas'} & {*sys.modules}, dir(ablate), hasattr(ablate, 'choose'))\n"
    code += "from ablate import Verdicts; print(ablate.judge.__module__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | ENVIRONMENT)
    assert done.stdout.splitlines() == ["set() ['Verdicts', 'judge', 'judge_table'] False", "ablate.verdicts"], done


@pytest.mark.parametrize("more", [(), ("--ledger", "night")])
def test_a_judge_that_runs_commands_stays_small(place, more):
    """Without looks, which simulate their cut-offs once; memory in KiB."""
    before = "import atexit, sys; heavy = {'matplotlib', 'mlflow', 'pandas', 'pyarrow', 'torch'}\n"
    used = "int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])"  # not that of the parent
    before += f"atexit.register(lambda: print(sorted(heavy & {{*sys.modules}}), {used}))"
    words = ["judge", "--baseline", "false {seed}", "--candidate", "false 1{seed}", "--metric", METRIC, "--higher"]
    done = program(*words, *more, before=before)
    loaded, memory = done.stdout.rsplit(maxsplit=1)
    assert "baseline failed twice" in done.stderr and loaded == "[]" and int(memory) < 130_000, done.stdout


RUN = {"who": "baseline", "seed": 0, "value": 1.0, "seconds": 1.0, "unit": ""}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"who": "ba\n', "JSON"),
        (b"\xff\xfe\n", "line 2"),
        (b'{"who": "baseline", "seed": 1, "value": 1.0}\n', "seconds"),
        (json.dumps(RUN | {"seed": "1"}).encode(), "seed"),
        (b'{"who": "baseline", "seed": 1, "value": NaN, "seconds": 1.0, "unit": ""}', "value"),
        (json.dumps(RUN).encode(), "there twice"),
    ],
)
def test_a_damaged_file_of_runs_is_named_with_its_line(place, line, why):
    (place / "f").mkdir()
    (place / "f" / "runs.jsonl").write_bytes(json.dumps(RUN).encode() + b"\n" + line)
    done = judge("--folder", "f")
    assert isinstance(done.exception, UserError) and re.search(f"line 2.*{why}|{why}", str(done.exception))


LEDGER = ("judge", "--ledger", "night")
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
    with open(kept / "lock", "a", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        threading.Timer(1, lambda: fcntl.flock(lock, fcntl.LOCK_UN)).start()
        done = propose("sh train.sh {seed} -100")
    assert done.exit_code == 1 and done.output.count("is at work") == 1


@pytest.mark.parametrize(
    ("name", "change", "why"),
    [
        ("ledger.jsonl", lambda lines: [lines[0][:30], *lines[1:]], "ledger.jsonl, line 1"),
        ("ledger.jsonl", lambda lines: lines[1:], "line 1 .*of proposal 1"),
        ("ledger.jsonl", lambda lines: [lines[0].replace("kept", "dropped"), *lines[1:]], "line 1"),
        ("runs.jsonl", lambda lines: [*lines[:2], "\udcff", *lines[3:]], "runs.jsonl, line 3"),
        ("runs.jsonl", lambda lines: lines[:-1], "ledger.jsonl, line 2 .*0 runs of proposal 2"),
        ("runs.jsonl", lambda lines: lines[1:], "runs.jsonl, line 1 .*here belongs a run of the baseline with seed 0"),
        ("runs.jsonl", lambda lines: [*lines[:7], *lines[8:]], "line 8 .*here belongs|line 1 .*lacks runs of its base"),
        ("ledger.json", lambda lines: ["{"], "ledger.json, line 1"),
        ("ledger.json", lambda lines: [], "ledger.json, line 1"),
    ],
)
def test_a_damaged_ledger_is_named_with_its_line(kept, name, change, why):
    assert propose("sh train.sh {seed} -100").exit_code == 1
    text = (kept / name).read_text(encoding="utf-8")
    (kept / name).write_text("".join(f"{x}\n" for x in change(text.splitlines())), "utf-8", "surrogateescape")
    done = propose("sh train.sh {seed} -100")
    assert isinstance(done.exception, UserError) and re.search(why, str(done.exception)), repr(done.exception)
    shown = propose(None)  # what is damaged is not counted either
    assert isinstance(shown.exception, UserError) and re.search(why, str(shown.exception))


@pytest.mark.parametrize("with_git", [False, True])
def test_configuration_that_runs_write_makes_nothing_run_twice(place, with_git):
    """Such as Hydra's, of a name with the time; but an edit of code during the runs begins anew."""
    script = "import os, sys, time; s = int(sys.argv[1]); os.makedirs(d := f'out/{time.time_ns()}'); "
    script += "open(f'{d}/config.yaml', 'w').write(str(s)); open('last.yaml', 'w').write(str(s)); "
    script += "open('runs.log', 'a').write('x'); e = int(sys.argv[2]); print('acc:', s * (3 + e) % 7 / 9 + 5 * e)"
    Path("train.py").write_text(script, encoding="utf-8")
    if with_git:
        commit()
    words = ["judge", "--metric", "acc: ([-0-9.e]+)"]
    for name, effect in (("baseline", 0), ("candidate", 1)):
        words += [f"--{name}", f"{sys.executable} train.py {{seed}} {effect}"]
    for _ in range(3):
        assert CliRunner().invoke(app, words).exit_code == 0
    assert len(Path("runs.log").read_text(encoding="utf-8")) == 4
    Path("last.yaml").unlink()
    Path("train.py").write_text(script + "  # edited", encoding="utf-8")
    assert CliRunner().invoke(app, words).exit_code == 0
    assert len(Path("runs.log").read_text(encoding="utf-8")) == 8
