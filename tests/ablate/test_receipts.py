"""Receipts of `ablate judge`: honest ones are sound, and each forgery is found, with the chain made again or not."""

import json
import re
import subprocess
import time
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from itertools import cycle, islice
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ablate.commands import read_lines, seed_at
from ablate.receipt import chained, command_digest
from ablate.receipt_check import check_receipt, together
from contrastive.errors import UserError
from flows.cli import app
from tests.tiers import rest_is_full

METRIC = "loss: ([-+0-9.]+)"
BASELINE = "echo loss: 10.$(( {seed} % 1000 * 7 % 5 ))"
CANDIDATE = "echo loss: 9.$(( {seed} % 1000 * 3 % 4 + 5 ))"
Entries = list[dict]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def judge(*words: str):
    return CliRunner().invoke(app, ["judge", *words])


def pair(*more: str, candidate: str = CANDIDATE):
    words = ("--baseline", BASELINE, "--candidate", candidate, "--metric", METRIC, "--lower", "--receipt", "r.jsonl")
    done = judge(*words, *more)
    assert done.exit_code in (0, 1, 2), done.output + repr(done.exception)
    return done


def ledger(candidate: str = CANDIDATE):
    words = ("--baseline", BASELINE, "--metric", METRIC, "--lower", "--receipt", "r.jsonl", "--seeds-from", "abc")
    done = judge("--ledger", "night", "--candidate", candidate, *words)
    assert done.exit_code in (0, 1, 3), done.output + repr(done.exception)
    return done


def check(*more: str):
    return judge("--check", "r.jsonl", *more)


def entries() -> Entries:
    return read_lines(Path("r.jsonl"))


@cache
def made(how: Callable[..., object], *words: str) -> Entries:
    """Return the entries of an honest receipt, which is made once for all forgeries of it."""
    how(*words)
    return entries()


def write(changed: Entries, chain: bool) -> None:
    """Write a forged receipt; with `chain`, number its entries and make its hashes again."""
    before = ""
    for number, entry in enumerate(changed if chain else ()):
        entry["number"] = number
        before = entry["hash"] = chained(entry, before)
    Path("r.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in changed), encoding="utf-8")


def places(found: Entries, entry: str) -> list[int]:
    return [number for number, each in enumerate(found) if each["entry"] == entry]


def run_left_out(found: Entries) -> None:
    del found[places(found, "run")[3]]


def pair_left_out(found: Entries) -> None:
    """With everything that tells of it: both runs, and the looks and the verdict after them."""
    seed = found[places(found, "run")[3]]["seed"]
    found[:] = [entry for entry in found if entry.get("seed") != seed]


def number_changed(found: Entries) -> None:
    found[places(found, "run")[1]]["value"] -= 0.2


def another_seed(found: Entries) -> None:
    found[places(found, "run")[2]]["seed"] = 77


def another_command(found: Entries) -> None:
    found[0]["pair"]["candidate"] += " honest"


def digest_of_another_command(found: Entries) -> None:
    run = found[places(found, "run")[2]]
    run["command"] = command_digest("x {seed}", run["seed"])


def reordered(found: Entries) -> None:
    first, *_, last = places(found, "run")
    found[first], found[last] = found[last], found[first]


def looks_reordered(found: Entries) -> None:
    first, second, *_ = places(found, "look")
    found[first], found[second] = found[second], found[first]


def verdict_changed(found: Entries) -> None:
    found[-1]["verdict"] = "worse"


def look_left_out(found: Entries) -> None:
    del found[places(found, "look")[0]]


def look_changed(found: Entries) -> None:
    found[places(found, "look")[1]]["p"] /= 10


def run_twice(found: Entries) -> None:
    found.insert(2, dict(found[1]))


def margin_added(found: Entries) -> None:
    found[0]["pair"]["margin"] = 5.0


def other_seeds_from(found: Entries) -> None:
    found[0]["pair"]["seeds_from"] = "another beacon"


def another_rule_of_seeds(found: Entries) -> None:
    found[0]["seeds"] = "those of the beacon"


def another_unit(found: Entries) -> None:
    found[places(found, "run")[1]]["unit"] = "%"


def negative_time(found: Entries) -> None:
    found[places(found, "run")[1]]["seconds"] = -1.0


def failure_with_a_number(found: Entries) -> None:
    found[places(found, "run")[1]]["failed"] = "timeout"


def of_a_ledger(found: Entries) -> None:
    found[places(found, "run")[1]]["text"] = "./other.sh {seed}"


def verdict_left_out(found: Entries) -> None:
    del found[-1]


FORGERIES: dict[Callable[[Entries], None], str] = {
    run_left_out: "the run of the baseline with seed 1433392508 is left out",
    pair_left_out: "is left out",
    number_changed: "the look after 2 pairs says difference",
    another_seed: "(candidate, seed 77) has a seed that is not among the seeds from `abc`",
    another_command: "was made by another command than the candidate's in the receipt",
    digest_of_another_command: "was made by another command than the candidate's in the receipt",
    reordered: "stands before entry",
    looks_reordered: "belongs elsewhere",
    verdict_changed: "the verdict says verdict worse, and the runs give verdict better",
    look_left_out: "the look after 2 pairs is left out",
    look_changed: "the look after 3 pairs says p",
    run_twice: "is there twice",
    margin_added: "the look after 2 pairs says verdict undecided, and the runs give verdict equivalent",
    other_seeds_from: "has a seed that is not among the seeds from `another beacon`",
    another_rule_of_seeds: "entry 0 says that the seeds are those of the beacon, and its settings give 31 bits",
    another_unit: "has the unit `%`, and the others ``",
    negative_time: "took -1 seconds",
    failure_with_a_number: "says that it failed",
    of_a_ledger: "is of a ledger",
    verdict_left_out: "the verdict is left out",
}


@pytest.mark.parametrize("forgery", FORGERIES, ids=lambda forgery: forgery.__name__)
def test_each_forgery_of_a_pair_is_found_with_a_new_chain_and_without(forgery):
    whole = made(pair, "--seeds-from", "abc")
    forged = deepcopy(whole)
    forgery(forged)
    write(forged, chain=True)
    done = check()
    assert done.exit_code == 1 and FORGERIES[forgery] in done.output and "the chain" not in done.output, done.output
    forged = deepcopy(whole)
    forgery(forged)
    write(forged, chain=False)
    done = check()
    broken = "the chain breaks at entry" in done.output or forgery is verdict_left_out  # an end cut off leaves it whole
    assert done.exit_code == 1 and broken and (FORGERIES[forgery] in done.output or "were moved" in done.output)


def test_an_honest_receipt_is_sound_and_the_same_again():
    made = pair("--seeds-from", "abc", "--jobs", "2")
    began = time.monotonic()
    found = check_receipt(Path("r.jsonl"))
    assert time.monotonic() - began < 1 and not found.differs and not found.notes
    assert f"receipt r.jsonl: {found.hash}" in made.output
    assert pair("--seeds-from", "abc").output.splitlines()[-1] == made.output.splitlines()[-1]  # and nothing runs
    done = check("--rerun", "2")
    assert done.exit_code == 0 and done.output.count(" again") == 2 and "sound, better after" in done.output
    assert json.loads(check("--json").output) == {"sound": True, "hash": found.hash, "differs": [], "notes": []}


def test_seeds_follow_from_the_text_and_a_folder_keeps_them():
    pair("--seeds-from", "abc", "--folder", "f")
    seeds = list(dict.fromkeys(entry["seed"] for entry in entries() if entry["entry"] == "run"))
    assert seeds == [seed_at(number, "abc") for number in range(len(seeds))] and max(seeds) < 2**31
    assert len({seed_at(number, text) for number in range(99) for text in ("abc", "abd", "abc1")}) == 297
    words = ("judge", "--baseline", BASELINE, "--candidate", CANDIDATE, "--metric", METRIC, "--higher", "--folder", "f")
    for more in (("--seeds-from", "abd"), ()):
        assert "f has seeds from another text (--seeds-from); name" in str(
            CliRunner().invoke(app, [*words, *more]).exception
        )
    pair()
    assert entries()[1]["seed"] == 0 and check().exit_code == 0


def test_tries_that_failed_are_in_the_receipt():
    flaky = f"test -e once || {{ touch once; echo oh no; exit 7; }}; {CANDIDATE}"
    pair("--folder", "f", candidate=flaky)
    failed = [entry for entry in entries() if entry.get("failed")]
    assert len(failed) == 1 and "ended with code 7: oh no" in failed[0]["failed"] and failed[0]["number"] == 2
    done = check()
    assert done.exit_code == 0 and "note: 1 tries failed" in done.output
    words = (
        "--baseline",
        BASELINE,
        "--candidate",
        "false {seed}",
        "--metric",
        METRIC,
        "--higher",
        "--receipt",
        "r.jsonl",
    )
    assert judge(*words).exit_code == 3 and entries()[-1]["verdict"] == "broken" and check().exit_code == 0


def test_runs_left_out_at_the_end_are_a_note():
    """They leave what --budget leaves, an undecided verdict; nobody can tell which it was."""
    pair("--budget", "0.001s")
    assert "as --budget ends it; later runs may have been left out" in check().output


def test_checking_simulates_nothing_for_pairs_that_would_decide(monkeypatch):
    pair(candidate=BASELINE.replace("* 7", "* 3"))
    monkeypatch.setattr("ablate.duel.needed", lambda *_: pytest.fail("it is simulated"))
    assert check().exit_code == 0


def test_invented_numbers_are_found_by_running_again():
    pair("--folder", "f")
    runs = read_lines(Path("f/runs.jsonl"))
    for run in runs:
        run["value"] -= 5 * (run["who"] == "candidate")
    Path("f/runs.jsonl").write_text("".join(json.dumps(run) + "\n" for run in runs), encoding="utf-8")
    pair("--folder", "f")
    assert check().exit_code == 0  # numbers alone do not tell
    done = check("--rerun", "2")
    assert done.exit_code == 1 and "standard deviations, hardly luck" in done.output, done.output


def test_numbers_moved_by_less_than_luck_are_found_by_all_runs_together():
    """The numbers of both sides repeat exactly, and those of the candidate were moved by half a deviation."""
    found = deepcopy(made(pair))
    for entry in (entry for entry in found if entry.get("who") == "candidate"):
        entry["value"] = round(entry["value"] - 0.05, 6)
    write(found, chain=True)
    said = check("--rerun", "20").output
    assert "runs repeat exactly" in said and "not sound" in said
    old = {"baseline": [(1.0, 1.1), (0.9, 1.0), (1.1, 0.95)], "candidate": [(1.0, 1.52), (0.9, 1.41), (1.2, 1.6)]}
    (words,) = together(old)
    assert "the 3 runs of the candidate are +0.477 from what the receipt says on average" in words


def test_a_receipt_replaces_no_other_file():
    Path("train.py").write_text("print(1)", encoding="utf-8")
    done = judge(
        "--baseline", BASELINE, "--candidate", CANDIDATE, "--metric", METRIC, "--higher", "--receipt", "train.py"
    )
    assert "this is no receipt" in str(done.exception) and Path("train.py").read_text() == "print(1)"


def test_a_baseline_that_failed_and_was_replaced_is_no_mistake_of_a_ledger():
    words = ("--ledger", "night", "--candidate", CANDIDATE, "--metric", METRIC, "--lower")
    assert judge(*words, "--baseline", "false {seed}").exit_code == 4
    assert judge(*words, "--baseline", BASELINE, "--receipt", "r.jsonl").exit_code in (0, 1)
    assert check().exit_code == 0, check().output


def test_a_line_that_readers_and_programs_read_differently_is_no_entry():
    made(pair)
    write(deepcopy(made(pair)), chain=False)
    text = Path("r.jsonl").read_text(encoding="utf-8")
    Path("r.jsonl").write_text(text.replace('"value": ', '"value": 0.5, "value": ', 1), encoding="utf-8")
    assert "line 2 is not written as `ablate judge --receipt` writes it" in str(check().exception)


def test_a_file_that_is_not_the_receipts_is_said_when_running_again(place):
    (place / "a.sh").write_text("echo loss: $1", encoding="utf-8")
    words = (
        "--baseline",
        "sh a.sh {seed}",
        "--candidate",
        "sh a.sh {seed}1",
        "--metric",
        METRIC,
        "--higher",
        "--receipt",
        "r.jsonl",
    )
    judge(*words)
    assert check("--rerun", "1").exit_code == 0
    (place / "a.sh").write_text("echo loss: $1 # edited", encoding="utf-8")
    done = check("--rerun", "1")
    assert done.exit_code == 1 and "a.sh here is not the file of the receipt" in done.output


def test_a_receipt_made_outside_git_is_sound_in_another_folder(place, monkeypatch):
    """Files are named from the working directory, each once; one that no command names may be absent."""
    Path("a.sh").write_text("echo loss: $1.5", encoding="utf-8")
    Path("other.py").write_text("1", encoding="utf-8")
    words = (
        "--baseline",
        "sh a.sh {seed}",
        "--candidate",
        "sh a.sh {seed}1",
        "--metric",
        METRIC,
        "--higher",
        "--receipt",
        "r.jsonl",
    )
    judge(*words)
    assert [*entries()[0]["code"]["files"]] == ["a.sh", "other.py"]
    there = place.rename(place.with_name("there"))
    monkeypatch.chdir(there)
    (there / "other.py").unlink()
    done = check("--rerun", "1")
    assert done.exit_code == 0 and "note: other.py of the receipt is not here; no command names it" in done.output
    (there / "a.sh").unlink()
    assert "a.sh here is not the file of the receipt" in check("--rerun", "1").output


def test_another_commit_is_a_note_when_running_again():
    Path(".gitignore").write_text("*", encoding="utf-8")
    commit = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "words"]
    for words in (["git", "init", "-q"], commit):
        subprocess.run(words, check=True)
    pair()
    was = entries()[0]["code"]["git"]["."][:12]
    assert "the commit here" not in check("--rerun", "1").output
    subprocess.run(commit, check=True)
    done = check("--rerun", "1")
    assert done.exit_code == 0 and re.search(
        f"note: the commit here is [0-9a-f]{{12}}, the receipt's is {was}", done.output
    )


def two_proposals() -> None:
    ledger("echo loss: 1{seed}")
    ledger()


def test_a_ledger_has_a_receipt_also_later():
    two_proposals()
    assert [found["proposal"]["result"] for found in entries() if found["entry"] == "proposal"] == ["dropped", "kept"]
    done = check("--rerun", "2")
    assert done.exit_code == 0 and done.output.count(" again") == 2, done.output
    honest = Path("r.jsonl").read_bytes()
    assert judge("--ledger", "night", "--receipt", "r.jsonl").exit_code == 0 and Path("r.jsonl").read_bytes() == honest


def test_a_run_of_a_ledger_that_alone_does_not_repeat_is_found():
    """The first run of a dropped proposal may have any number that is dropped; those of the baseline repeat exactly."""
    forged = deepcopy(made(two_proposals))
    forged[places(forged, "run")[0]]["value"] += 1e-4
    write(forged, chain=True)
    assert check().exit_code == 0
    done = check("--rerun", "20")
    assert done.exit_code == 1 and "so that runs repeat exactly, and 1 another one" in done.output, done.output


LEDGER_FORGERIES: dict[str, tuple[Callable[[Entries], object], str]] = {
    "run left out": (lambda found: found.pop(3), "here belongs a run of the baseline with seed"),
    "proposal left out": (lambda found: found.pop(places(found, "proposal")[0]), "run"),
    "number of a pair": (lambda found: found[places(found, "run")[-2]].update(value=1.0), "the receipt gives"),
    "result": (
        lambda found: found[places(found, "proposal")[0]]["proposal"].update(result="kept"),
        "the receipt gives another result, dropped",
    ),
    "seed": (lambda found: found[2].update(seed=5), "here belongs a run of the baseline with seed"),
    "command": (
        lambda found: found[places(found, "proposal")[0]]["proposal"].update(candidate="x {seed}"),
        "was made by another command",
    ),
    "order": (lambda found: found.insert(1, found.pop(places(found, "run")[-1])), "stands before"),
    "kept": (lambda found: found[-1].update(kept=9), "the verdict says kept 9, and the runs give kept 1"),
}


@pytest.mark.parametrize("chain", [True, False])
@pytest.mark.parametrize("forgery", LEDGER_FORGERIES)
def test_each_forgery_of_a_ledger_is_found(forgery, chain):
    forged = deepcopy(made(two_proposals))
    change, said = LEDGER_FORGERIES[forgery]
    change(forged)
    write(forged, chain)
    done = check()
    assert done.exit_code == 1 and (said in done.output), done.output
    assert ("the chain breaks" in done.output) != chain


def test_a_ledger_keeps_its_text_of_seeds_also_after_a_failure():
    ledger("echo loss: 1{seed}")
    ledger("false {seed}")
    ledger(f"test {{seed}} = {seed_at(9, 'abc')} && {CANDIDATE}")
    ledger()
    assert check().exit_code == 0, check().output
    runs = [entry for entry in entries() if entry["entry"] == "run" and not entry["failed"]]
    assert {run["seed"] for run in runs} <= {seed_at(number, "abc") for number in range(40)}
    other = judge("--ledger", "night", "--candidate", CANDIDATE, "--seeds-from", "x")
    assert "--seeds-from is `x`, but this ledger began with `abc`" in str(other.exception)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "line 1 is no entry of a receipt"),
        (b"\xff\x00", "line 1 is no entry of a receipt"),
        (b"[]", "line 1 is no entry of a receipt"),
        (b'{"entry": "run"}', "line 1 is no entry of a receipt"),
    ],
)
def test_what_is_no_receipt_is_said_in_a_sentence(text, said):
    Path("r.jsonl").write_bytes(text)
    assert isinstance(error := check().exception, UserError) and said in str(error)


DAMAGES = (None, "x", [1], 1e999, 1e308, -1)


@pytest.mark.parametrize("count", rest_is_full([2, len(DAMAGES)], [2]))
@pytest.mark.parametrize("how", [pair, two_proposals])
def test_a_damaged_receipt_gives_no_traceback(how, count):
    """A field of an entry is of another type, or is a number that cannot be; `count` of these a field, in turn."""
    damages = cycle(DAMAGES)
    whole = deepcopy(made(how))
    kinds = {entry["entry"]: entry for entry in whole}
    inner = (whole[0][name] for name in ("pair", "ledger", "code") if whole[0][name])
    for entry in (*kinds.values(), *inner, *([kinds["proposal"]["proposal"]] if "proposal" in kinds else ())):
        for name in entry:
            for value in islice(damages, count):
                before, entry[name] = entry[name], value
                write(whole, chain=False)
                done = check()
                assert isinstance(done.exception, SystemExit | UserError | None), (name, value, done.exc_info)
                assert done.exit_code == 1 or value == before, (name, value)
                entry[name] = before


@pytest.mark.parametrize("words", [("--receipt", "r.jsonl"), ("--ledger", "night")])
def test_a_command_that_no_receipt_can_hold_is_refused_before_it_runs(words):
    done = judge("--baseline", BASELINE, "--candidate", f"{CANDIDATE} \udce9", "--metric", METRIC, "--higher", *words)
    assert done.exit_code != 0 and "is not UTF-8" in str(done.exception) and not Path("night/runs.jsonl").exists()


def test_options_without_effect_are_refused():
    assert "--rerun has no effect without --check" in str(judge("--rerun", "2").exception)
    assert "--lower has no effect with --check" in str(judge("--check", "r", "--lower").exception)
    assert "--timeout has no effect with --check" in str(judge("--check", "r", "--timeout", "5s").exception)
