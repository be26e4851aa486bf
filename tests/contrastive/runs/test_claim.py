"""One holder a cell: who waits, and who takes over from whom."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from contrastive.runs import claim, stopping, store
from tests.lying_locks import lying_locks

WORKER = """
import sys, time
from pathlib import Path
from contrastive.runs import claim, store
run, name, seconds = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
print("ready", flush=True)
with claim.begin_attempt(run, "train", lambda: store.damage(run, "TRAINED") is None) as work:
    if work is None:
        print("finished by another", flush=True)
    else:
        print(f"holds {work.number}", flush=True)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            (work.folder / "weights").write_text(name)
            time.sleep(0.02)
        work.publish("TRAINED")
        print("published", flush=True)
"""


class Worker:
    def __init__(self, run: Path, name: str, seconds: float, settings: dict[str, str] | None = None):
        command = [sys.executable, "-c", WORKER, str(run), name, str(seconds)]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(command, env=os.environ | (settings or {}), text=True, **pipes)

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def rest(self) -> str:
        out, err = self.process.communicate(timeout=300)
        return out + err


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "cell"


@pytest.fixture
def lying(tmp_path: Path) -> dict[str, str]:
    """Settings with which locks of the system hold nothing, as on some shared file systems."""
    return lying_locks(tmp_path) | {"ABLATE_HOME": str(tmp_path)}


@pytest.fixture(params=["locks", "lock files"])
def settings(request: pytest.FixtureRequest, tmp_path: Path, lying: dict[str, str]) -> dict[str, str]:
    if request.param == "locks":
        return {}
    store.write_atomic(tmp_path / "locks" / "use-lock-files", "")
    return lying


def publish(run: Path, name: str, text: str) -> None:
    with claim.begin_attempt(run, "train", lambda: False) as work:
        assert work is not None
        (work.folder / name).parent.mkdir(exist_ok=True)
        (work.folder / name).write_text(text)
        work.publish("TRAINED")


def trained(run: Path) -> str:
    assert store.damage(run, "TRAINED") is None and not claim.is_held(run)
    return (run / "weights").read_text()


def outcomes(run: Path) -> list[str]:
    return [known.get("outcome", "") for known in claim.attempts(run)]


def test_of_many_at_once_one_works_and_the_others_find_it_done(run: Path, settings: dict[str, str]):
    workers = [Worker(run, str(i), 1.0, settings) for i in range(4)]
    said = [worker.rest() for worker in workers]
    assert sorted("published" in text for text in said) == [False, False, False, True]
    assert sum("finished by another" in text for text in said) == 3
    assert trained(run) == str(["published" in text for text in said].index(True)) and outcomes(run) == ["done"]


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_killed_holder_is_followed_at_once_and_its_attempt_kept(
    is_stopped: bool, run: Path, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    """One that is stopped keeps its cell until its engine kills it, after `hung_after`; nothing of it is taken over."""
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert not claim.is_held(run) and not run.exists()
    first = Worker(run, "first", 600)
    assert (first.says(), first.says()) == ("ready", "holds 1")
    if is_stopped:
        os.kill(first.process.pid, signal.SIGSTOP)
    second = Worker(run, "second", 0.2)
    assert second.says() == "ready" and claim.is_held(run)
    first.process.kill()
    first.process.wait()
    assert second.says() == "holds 2"
    assert "published" in second.rest()
    assert trained(run) == "second" and outcomes(run) == ["lost", "done"]


def test_where_locks_lie_a_late_writer_changes_nothing(run: Path, lying: dict[str, str]):
    late = Worker(run, "late", 2.0, lying)
    assert (late.says(), late.says()) == ("ready", "holds 1")
    early = Worker(run, "early", 0.1, lying)
    assert "holds 2" in early.rest()
    marker = (run / "TRAINED").read_bytes()
    assert trained(run) == "early" and late.process.poll() is None
    assert late.rest() == "published\n" and trained(run) == "early" and (run / "TRAINED").read_bytes() == marker


def test_attempts_that_were_lost_before_a_checkpoint_are_counted(run: Path):
    def lose(with_checkpoint: bool) -> None:
        with claim.begin_attempt(run, "train", lambda: False) as work:
            assert work is not None
            state, (earlier, *_) = work.folder / "resume" / "state.pt", [*run.glob("attempts/*/resume/state.pt"), None]
            if with_checkpoint:
                store.write_atomic(state, "")
            elif earlier:  # an attempt begins with the last checkpoint
                state.parent.mkdir()
                os.link(earlier, state)
        known = store.read_json(work.folder / "attempt.json")
        store.write_json(work.folder / "attempt.json", {k: known[k] for k in known.keys() - {"ended", "outcome"}})

    counts = []
    for with_checkpoint in (False, False, True, False, False):
        lose(with_checkpoint)
        counts.append(claim.lost_in_a_row(run))
    assert counts == [1, 2, 0, 1, 2]
    with claim.begin_attempt(run, "evaluate", lambda: False):
        pass
    assert claim.lost_in_a_row(run) == 2
    with claim.hold(run):
        claim.report_loss(run, "infrastructure", "lost")
    assert claim.lost_in_a_row(run) == 2 and store.failure(run) is None  # another attempt was at work
    lose(with_checkpoint=False)
    claim.report_loss(run, "infrastructure", "lost")
    assert claim.lost_in_a_row(run) == 0 and claim.attempts(run)[-1]["kind"] == "infrastructure"
    assert store.failure(run) == {"kind": "infrastructure", "error": "lost"}


def test_an_attempt_ends_with_what_stopped_it_and_its_log_is_the_cells_until_another_one_succeeded(run: Path):
    with pytest.raises(ValueError, match="because"), claim.begin_attempt(run, "train", lambda: False) as first:
        assert first is not None and claim.current_folder(run) == run
        (first.folder / "metrics.jsonl").write_text("failed")
        assert claim.current_folder(run) == first.folder
        raise ValueError("because")
    (known,) = claim.attempts(run)
    assert known["outcome"] == "ValueError: because" and known["stage"] == "train" and known["ended"] >= known["began"]
    assert not claim.is_held(run) and store.damage(run, "TRAINED") is not None
    assert claim.current_folder(run) == first.folder
    publish(run, "metrics.jsonl", "done")
    assert claim.current_folder(run) == run and (run / "metrics.jsonl").read_text() == "done"


def test_publishing_removes_what_was_there_of_an_older_attempt(run: Path):
    run.mkdir(parents=True)
    for name in ("weights", "scores.json", "DONE", "FAILED.json"):
        (run / name).write_text("old")
    (run / "checkpoint").mkdir()
    publish(run, "checkpoint/new", "new")
    assert {path.name for path in run.iterdir() if not path.name.startswith(".")} == {
        "TRAINED", "attempts", "checkpoint",
    }  # fmt: skip
    assert (run / "checkpoint" / "new").read_text() == "new"


@pytest.mark.parametrize("harmed", ['{"number": "3"}', "[1]", '"text"', "{", ""])
def test_a_harmed_note_of_an_attempt_stops_nobody(harmed: str, run: Path):
    publish(run, "weights", "old")
    (run / "attempts" / "0001" / "attempt.json").write_text(harmed)
    publish(run, "weights", "new")
    assert trained(run) == "new" and claim.latest_attempt(run) == "0002"


def test_whoever_waits_ends_when_its_permit_is_taken_away(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stopping, "CHECK_INTERVAL", 0.0)
    with stopping.work_permit(tmp_path) as leave, claim.hold(run):
        monkeypatch.setenv(stopping.VARIABLE, str(leave))
        leave.unlink()
        with ThreadPoolExecutor(1) as other, pytest.raises(stopping.Stopped):
            other.submit(claim.begin_attempt(run, "train", lambda: False).__enter__).result(60)


def test_only_a_stage_that_is_damaged_is_set_back_and_none_that_somebody_works_on(run: Path):
    publish(run, "weights", "whole")
    assert claim.invalidate_damaged(run) == "" and trained(run) == "whole"
    before = (run / "weights").stat()
    (run / "weights").write_text("harms")
    os.utime(run / "weights", ns=(before.st_atime_ns, before.st_mtime_ns))
    store._digest.cache_clear()
    with claim.begin_attempt(run, "evaluate", lambda: False):
        assert claim.invalidate_damaged(run) == "", "somebody works on it"
    assert claim.invalidate_damaged(run) == "weights was changed"
    assert not (run / "TRAINED").exists()
