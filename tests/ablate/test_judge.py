"""`ablate judge`: exactly the runs that decide, exit codes, failures, kills, and results that are kept."""

import contextlib
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from threading import Barrier

import numpy as np
import psutil
import pytest
from typer.testing import CliRunner

from ablate.code_state import code_digest
from ablate.commands import RunFailed, RunFolder, read_lines
from ablate.duel import Duel, fight, judged
from ablate.metric import lower_is_better, number_in
from contrastive.errors import UserError
from flows.cli import app, main
from reports.statistics.cutoffs import looks_up_to
from tests.waiting import soon

METRIC = "loss: ([-0-9.naif]+)"
# A training script: its loss depends on the seed, is better by --lift, and is printed after a worse one.
SCRIPT = """
import argparse, pathlib, random, sys, time
p = argparse.ArgumentParser()
p.add_argument("--seed", type=float)
p.add_argument("--lift", type=float, default=0)
p.add_argument("--fail", default="")
p.add_argument("--until", default="")
a = p.parse_args()
with open("runs.txt", "a") as f: f.write(f"{a.lift} {a.seed:.0f}\\n")
if a.fail and not pathlib.Path(a.fail).exists(): pathlib.Path(a.fail).touch(); sys.exit(7)
while a.until and int(open(a.until).read()) <= a.seed: time.sleep(.02)
shared, own = random.Random(a.seed), random.Random(f"{a.seed} {a.lift}")
print("loss: 9.9")
print(f"loss: {1 - a.lift + shared.gauss(0, .05) + own.gauss(0, .01):.6f}")
"""


@pytest.fixture
def script(tmp_path, monkeypatch) -> str:
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    return f"{sys.executable} train.py --seed {{seed}}"


def judge(script: str, options: str = "", *arguments: str):
    command = ["judge", "--baseline", script, "--candidate", f"{script} {options}", "--metric", METRIC, "--lower"]
    return CliRunner().invoke(app, [*command, *arguments])


@pytest.mark.parametrize("metric", [
    "loss: ([-+0-9.e]+)", "val_bpb=(.*)", r"eval\.perplexity\s(\d+)", "(.*) s of latency", "loss: ([0-9.]+) acc",
    "(?P<loss>[0-9.]+)", "[Ll]oss: (.*)",
])  # fmt: skip
def test_a_metric_that_is_better_if_lower_needs_its_direction(metric: str, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words in (["judge"], ["judge", "ledger", "ledger"]):
        done = CliRunner().invoke(app, [*words, "--baseline", "b {seed}", "--candidate", "c", "--metric", metric])
        assert "lower seems to be better; say --lower, or --higher" in str(done.exception)
        assert not [*tmp_path.rglob("*.json*")]
    for other in ("accuracy: (.*)", "(.*)", "samples/sec: ([0-9.]+)", r"throughput \(tokens/sec\): (.*)",
                  "acc: ([0-9.]+), loss", r"accuracy (\S+) after \S+ seconds"):  # fmt: skip
        assert lower_is_better(other, None) is False
    assert lower_is_better(metric, True) is True and lower_is_better(metric, False) is False


def runs(tmp_path: Path) -> list[str]:
    return sorted((tmp_path / "runs.txt").read_text(encoding="utf-8").split("\n")[:-1])


@pytest.mark.parametrize(
    ("options", "arguments", "code", "word"),
    [
        ("--lift 0.2", (), 0, "better"),
        ("--lift -0.2", (), 1, "worse"),
        ("--lift 0.0001", ("--margin", "0.05"), 1, "equivalent"),
        ("--lift 0.0001", ("--max-runs", "6"), 2, "undecided"),
        ("--lift 0.2", ("--budget", "0.001s"), 2, "undecided"),
    ],
)
def test_the_exit_code_and_the_last_line_say_the_verdict(script, tmp_path, options, arguments, code, word):
    done = judge(script, options, "--json", "--jobs", "2", *arguments)
    outcome = json.loads(done.output.splitlines()[-1])
    assert (done.exit_code, outcome["verdict"]) == (code, word), done.output
    if outcome["pairs"]:
        assert outcome["runs"] == 2 * outcome["pairs"] and outcome["pairs"] in looks_up_to(8)
        assert runs(tmp_path) == sorted(f"{lift} {s}" for s in range(outcome["pairs"]) for lift in ("0", options[7:]))


def test_the_same_command_runs_nothing_again_and_an_edited_script_everything(script, tmp_path):
    first, again = judge(script, "--lift 0.2"), judge(script, "--lift 0.2", "--json")
    count = len(runs(tmp_path))
    assert first.exit_code == again.exit_code == 0 and json.loads(again.output.splitlines()[-1])["runs"] == count
    (tmp_path / "train.py").write_text(SCRIPT + "\n# edited", encoding="utf-8")
    assert judge(script, "--lift 0.2").exit_code == 0 and len(runs(tmp_path)) == 2 * count
    assert judge(script, "--lift 0.2", "--fresh").exit_code == 0 and len(runs(tmp_path)) == 3 * count


def test_a_run_that_fails_is_repeated_once_then_named(script, tmp_path):
    assert judge(script, "--lift 0.2 --fail once", "--folder", "a").exit_code == 0
    count = len(runs(tmp_path))
    done = judge(f"{script} && exit 3", "", "--folder", "b")
    assert done.exit_code == 3 and len(runs(tmp_path)) == count + 2  # and no other run begins
    assert "baseline failed twice with seed 0: ended with code 3: loss: 9.9 | loss: " in done.output
    for command, message in (("true {seed}", "printed nothing that"), ("echo loss: nan {seed}", "printed nan")):
        folder = RunFolder(tmp_path, METRIC)
        with pytest.raises(RunFailed, match=message):
            fight(Duel(command, command, METRIC), folder, print)
        assert folder.runs == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"baseline": "train"}, r"--baseline `train` has no \{seed\}"),
        ({"metric": "loss: .*"}, "has no group; put the number in parentheses"),
        ({"metric": "(loss"}, "is not a regular expression"),
        ({"max_runs": 3}, "needs two pairs of runs, so at least 4"),
        ({"margin": 0.0}, "--margin is 0; give a size above 0"),
    ],
)
def test_settings_that_cannot_work_are_refused_before_anything_runs(changes, message):
    settings = {"baseline": "a {seed}", "candidate": "b {seed}", "metric": "(x)"} | changes
    with pytest.raises(UserError, match=message):
        Duel(**settings).check()


def test_ctrl_c_and_two_kills_lose_nothing_and_leave_nothing(script, tmp_path):
    """The same command goes on after each: finished runs are kept, and no training outlives its judge."""
    wait = " --until go.txt"
    command = [str(Path(sys.executable).with_name("ablate")), "judge", "--metric", METRIC, "--lower"]
    command += ["--baseline", f"{script}{wait}", "--candidate", f"{script} --lift 0.2{wait}"]
    command += ["--folder", str(tmp_path / "kept")]
    for number, how in enumerate((signal.SIGINT, signal.SIGKILL, signal.SIGKILL)):
        (tmp_path / "go.txt").write_text(str(number), encoding="utf-8")  # seeds that may end
        process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored under `make test &`
        )
        soon(lambda n=number: len(read_lines(tmp_path / "kept" / "runs.jsonl")) == 2 * n and trainings(tmp_path))
        process.send_signal(how)
        assert process.wait(100) == (130 if how == signal.SIGINT else -signal.SIGKILL)
        soon(lambda: not trainings(tmp_path))
    (tmp_path / "go.txt").write_text("8", encoding="utf-8")
    kept = read_lines(tmp_path / "kept" / "runs.jsonl")
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and re.search(r"better after \d+ runs", done.stdout), done.stderr
    after = read_lines(tmp_path / "kept" / "runs.jsonl")
    assert after[: len(kept)] == kept and len({(run["side"], run["seed"]) for run in after}) == len(after)


def trainings(folder: Path) -> list[int]:
    """Return the processes of the script in this folder."""
    numbers = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if "train.py" in process.cmdline() and process.cwd() == str(folder):
                numbers.append(process.pid)
    return numbers


def test_runs_that_end_at_once_are_all_kept(tmp_path):
    """Also behind a line that was mended by hand, without a newline at its end."""
    (tmp_path / "runs.jsonl").write_text('{"side": "baseline", "seed": 9, "value": 1.0, "seconds": 1.0, "unit": ""}')
    folder, together = RunFolder(tmp_path, METRIC, jobs=8, runner=lambda *_: (together.wait() + 1.0, "")), Barrier(8)
    assert folder.complete([("candidate", seed) for seed in range(8)], {"candidate": "x"})
    folder.load()
    assert folder.runs[0].seed == 9 and {run.seed for run in folder.runs} == set(range(10)) - {8}


@pytest.mark.parametrize("lift", [0.0, 3.0])
def test_wrong_verdicts_are_rare_and_real_differences_are_found(lift):
    """Of 400 candidates that change nothing at most 5 % + 3 se get better or worse; 3 sd are found at 8 pairs."""
    rng, duel, verdicts = np.random.default_rng(5), Duel("baseline {seed}", "candidate {seed}", METRIC), []
    for values in rng.normal(size=(400, 2, 8)) + np.array([[0.0], [lift]]):
        looks = [(judged(duel, values[:, :pairs])[0], 2 * pairs) for pairs in looks_up_to(8)]
        verdicts.append(next((look for look in looks if look[0] != "undecided"), looks[-1]))
    if lift:
        assert np.mean([word == "better" for word, _ in verdicts]) > 0.9
        assert np.mean([runs for _, runs in verdicts]) < 14
    else:
        wrong = np.mean([word in ("better", "worse") for word, _ in verdicts])
        assert wrong < 0.05 + 3 * (0.05 * 0.95 / 400) ** 0.5


def test_a_folder_is_not_used_for_other_commands(script, tmp_path):
    assert judge(script, "--lift 0.2", "--folder", "f").exit_code == 0
    count = len(runs(tmp_path))
    assert "has runs of other commands" in str(judge(script, "--lift 0.3", "--folder", "f").exception)
    assert judge(script, "--lift 0.2", "--folder", "f").exit_code == 0 and len(runs(tmp_path)) == count


def test_an_edit_of_a_file_that_a_command_names_changes_the_digest(tmp_path, monkeypatch):
    """In the folder of a `cd`, or behind an option; not after `>`, not of one seed, and no file that is not named."""
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path)
    commands = "cd a; python x.py {seed} > out.txt", "(cd a && python t --config=conf.yaml {seed})>{seed}.log"
    digests = [code_digest(*commands, metric="(x)")]
    for name, named in (
        *(("a/x.py", True), ("a/conf.yaml", True)),
        *(("a/out.txt", False), ("out.txt", False), ("0.log", False), ("x.py", False), ("a/other.py", False)),
    ):
        Path(name).write_text("1", encoding="utf-8")
        digests.append(code_digest(*commands, metric="(x)"))
        assert (digests[-1] != digests[-2]) == named, name
    assert code_digest(*commands, metric="(y)") not in digests
    monkeypatch.chdir(tmp_path / "a")
    assert code_digest(*commands, metric="(x)") not in digests


def test_changes_under_git_count_in_the_folder_where_a_command_works(tmp_path, monkeypatch):
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for folder in ("here", "best"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "lib.py").touch()
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "begin"]):
            subprocess.run([*git, *words], check=True, cwd=tmp_path / folder)
    monkeypatch.chdir(tmp_path / "here")
    commands = ("python -m lib {seed}", "cd ../best && python -m lib {seed}")
    before = [code_digest(command, metric="") for command in commands]
    for name, changed in (("lib.py", [True, False]), ("../best/lib.py", [False, True]), ("new.py", [False, False])):
        Path(name).write_text("1", encoding="utf-8")
        now = [code_digest(command, metric="") for command in commands]
        assert [a != b for a, b in zip(now, before, strict=True)] == changed, name
        before = now
    subprocess.run([*git, "add", "-A"], check=True)
    assert code_digest(commands[0], metric="") != before[0]


def test_long_words_and_large_files_are_no_problem(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open("large", "wb") as file:
        file.truncate(1 << 28)
    assert code_digest(f"python x --json '{'x' * 5000}' large {{seed}}", metric="") != code_digest("x", metric="")


@pytest.mark.parametrize(
    ("more", "how"),
    [("--folder", signal.SIGKILL), pytest.param("ledger", signal.SIGINT, marks=pytest.mark.full)],
)
def test_a_process_of_its_own_group_or_session_ends_too(tmp_path, more, how):
    command = (
        f"cd {tmp_path}; setsid sh -c 'echo $$ > one; sleep 99' & timeout 99 sh -c 'echo $$ > two; sleep 99' {{seed}}"
    )
    words = ["judge", more, str(tmp_path / "f"), "--baseline", command, "--candidate", f"{command} ", "--metric", "(x)"]
    process = subprocess.Popen(
        [str(Path(sys.executable).with_name("ablate")), *words],
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    soon(lambda: all((tmp_path / name).is_file() and (tmp_path / name).read_text() for name in ("one", "two")))
    numbers = [int((tmp_path / name).read_text()) for name in ("one", "two")]
    process.send_signal(how)
    process.wait(100)
    soon(lambda: not any(psutil.pid_exists(number) for number in numbers))


def test_a_file_that_changed_during_the_runs_is_a_warning(script, tmp_path):
    done = judge(f"{script} && ls runs.txt", "", "--max-runs", "4")
    assert "changed during the runs" in done.output, done.output
    again = judge(f"{script} && ls > ls-{{seed}}.txt", "", "--max-runs", "4")
    assert again.exit_code == 2 and "changed during" not in again.output


@pytest.mark.parametrize(
    ("text", "metric", "expected"),
    [
        ("loss: 2\nloss: 1.0.\n", "loss: ([0-9.]+)", 1.0),
        ("loss: 0.3 (val)\nloss: 0.2 (train)", r"loss: ([0-9.]+) \(val\)", 0.3),
        ("loss: 1\nloss: information", "loss: ([0-9.]+)", 1.0),
        ("loss: 1\nloss: nan", "loss: ([-+0-9.e]+)", "printed `loss: nan` last"),
        ("loss: 1\nloss: -0.3", "loss: ([0-9.]+)", "printed `loss: -0.3` last"),
        ("epoch 1 loss: 3\nepoch 2 loss: NaN", r"epoch \d+ loss: ([0-9.]+)", "printed `epoch 2 loss: NaN` last"),
        ("0.5 bpb\nnan bpb", "([-+0-9.e]+) bpb", "printed `nan bpb` last"),
        ("step 1 loss: 1\nstep 2 loss: nan", "(?<=loss: )([0-9.]+)", "printed `step 2 loss: nan` last"),
        ("{'acc': 0.83, 'ckpt': None, 'epoch': 3}", "'acc': ([0-9.]+),", 0.83),
        ("test acc: 91.2%\nchange since last: -0.3%", "([0-9.]+)%", 0.3),
        ("| acc | 0.91 |\n| f1 | nan |", r"acc \| ([0-9.]+) \|", 0.91),
        ("val: 1", "(foo )?val: ([0-9.]+)", "printed nothing that --metric"),
        ("loss: .", "loss: ([0-9.]+)", "not a number"),
        ("loss: 1e300", "loss: ([0-9.e]+)", "printed 1e+300, which cannot be compared: it is too large"),
    ],
)
def test_the_last_number_counts_and_one_that_the_metric_cuts_or_passes_over_is_named(text, metric, expected):
    value, why = number_in(text, metric)
    assert value == expected if isinstance(expected, float) else value is None and expected in why


@pytest.mark.parametrize("number", ["2e-05", "1.5E+3"])
@pytest.mark.parametrize("group", ["[0-9.]+", r"-?\d+(?:\.\d+)?"])
def test_the_advice_on_an_exponent_that_is_cut_works_as_it_stands(number, group):
    text = f"loss: {number}\n"
    value, why = number_in(text, f"loss: ({group})")
    assert value is None and (advice := re.search(r"write its group as `(.*)`$", why)), why
    assert number_in(text, f"loss: {advice[1]}")[0] == float(number)


@pytest.mark.parametrize("printed", ["echo 'loss: 88%'", "echo 'loss: 88 % of all'"])
def test_a_percent_sign_on_one_side_is_an_error_and_no_run(printed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = judge("echo loss: .82 {seed}", f"> /dev/null; {printed}", "--folder", "f", "--jobs", "2", "--gate", "v.md")
    assert done.exit_code == 3, done.output
    assert len({run["unit"] for run in read_lines(tmp_path / "f" / "runs.jsonl")}) == 1
    for words in (r"candidate, seed \d printed 88 %", r"baseline, seed \d printed 0.82"):
        assert re.search(words, done.output)
    assert (tmp_path / "v.md").read_text(encoding="utf-8").startswith("**Not judged**")
    both = judge(f"{printed} {{seed}}", "x", "--folder", "g", "--max-runs", "4")
    assert both.exit_code == 2, both.output


def test_commands_that_the_seed_does_not_change_stop_early(script, tmp_path):
    done = judge("echo loss: 1 {seed};", "false {seed} || echo loss: 2", "--json")
    assert done.exit_code == 2 and json.loads(done.output.splitlines()[-1])["runs"] == 8, done.output
    assert "differ by the same size at every seed" in done.output


def test_an_error_is_no_verdict(tmp_path, monkeypatch, capfd):
    """Usage errors and failures of the program exit with 3, since 1 and 2 are verdicts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONSAFEPATH", "")  # which the command sets for its process
    (tmp_path / "file").touch()
    words = ["ablate", "judge", "--baseline", "echo x {seed}", "--candidate", "echo y {seed}", "--metric", "(x)"]
    for more, message in (
        (["--max-rnus", "4"], "No such option"),
        (["--margin", "much"], "valid number"),
        (["--margin", "-1"], "give a size above 0"),
        (["--folder", "file/f"], "file"),
    ):
        monkeypatch.setattr(sys, "argv", words + more)
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == 3 and message in capfd.readouterr().err, more
    monkeypatch.setattr(RunFolder, "complete", lambda *_: 1 / 0)
    monkeypatch.setattr(sys, "argv", [*words, "--folder", "other"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 3 and "ZeroDivisionError" in capfd.readouterr().err
