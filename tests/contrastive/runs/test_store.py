"""Run folders: what is not whole is not finished."""

import errno
import multiprocessing
import os
import signal
from pathlib import Path

import pytest

from contrastive.errors import UserError
from contrastive.runs import store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "runs" / "abc"
    (folder / "checkpoint").mkdir(parents=True)
    (folder / "checkpoint" / "weights.safetensors").write_bytes(b"weights" * 100)
    (folder / "metrics.jsonl").write_text('{"step": 0}\n')
    store.mark_finished(folder, "TRAINED")
    (folder / "scores.json").write_text("{}")
    store.mark_finished(folder, "DONE")
    return folder


def test_a_whole_folder_is_finished_also_where_it_was_copied(folder: Path):
    assert store.finished(folder) and store.damage(folder, "DONE", thorough=True) is None
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path)
    assert store.finished(folder)


@pytest.mark.parametrize("name", ["metrics.jsonl", "checkpoint/weights.safetensors", "scores.json"])
@pytest.mark.parametrize("harm", ["truncated", "flipped", "missing"])
def test_a_damaged_file_is_found(folder: Path, name: str, harm: str):
    path = folder / name
    content = bytearray(path.read_bytes())
    if harm == "missing":
        path.unlink()
    else:
        content[-1] ^= 1
        path.write_bytes(content if harm == "flipped" else content[:-1])
    assert not store.finished(folder)
    trained = store.damage(folder, "TRAINED")
    assert (trained is None) == (name == "scores.json"), "damaged scores are measured again, not trained again"


def test_a_flipped_bit_behind_the_clock_is_found_by_a_thorough_look(folder: Path):
    path = folder / "checkpoint" / "weights.safetensors"
    times = path.stat()
    content = bytearray(path.read_bytes())
    content[0] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    store._digest.cache_clear()
    assert store.damage(folder, "DONE", thorough=True) == "checkpoint/weights.safetensors was changed"


def test_a_broken_marker_is_no_marker(folder: Path):
    for marker in ("", "{", "[]", '{"files": 3}', "\x00\x01"):
        (folder / "DONE").write_text(marker)
        assert not store.finished(folder), marker


def test_write_atomic_leaves_the_old_file_when_writing_fails(tmp_path: Path):
    path = tmp_path / "file"
    store.write_atomic(path, "old")
    with pytest.raises(UnicodeEncodeError):
        store.write_atomic(path, "\ud800")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def _hold(path: Path, started) -> None:
    with store.locked(path):
        started.set()
        signal.pause()


def test_a_lock_waits_for_another_process_and_is_freed_by_its_death(tmp_path: Path):
    context = multiprocessing.get_context("spawn")
    started = context.Event()
    holder = context.Process(target=_hold, args=(tmp_path / "lock", started))
    holder.start()
    assert started.wait(60)
    with store.locked(tmp_path / "lock", timeout=0.3) as is_free:
        assert not is_free
    holder.kill()
    with store.locked(tmp_path / "lock", timeout=60) as is_free:
        assert is_free
    holder.join()


@pytest.mark.parametrize("harm", ["nothing", "short", "missing", "changed", "unfinished"])
def test_a_folder_is_made_once_and_again_where_it_is_damaged(harm: str, tmp_path: Path):
    made: list[Path] = []

    def make(folder: Path) -> None:
        made.append(folder)
        (folder / "content").write_bytes(b"whole")

    path = store.make_once(tmp_path / "cache" / "key", make) / "content"
    if harm == "unfinished":  # as one who was killed leaves it
        path.parent.rename(path.parent.with_suffix(".unfinished"))
    elif harm == "missing":
        path.unlink()
    elif harm != "nothing":
        path.write_bytes(b"whol" if harm == "short" else b"other")
    assert store.make_once(path.parent, make) == path.parent and path.read_bytes() == b"whole"
    assert len(made) == (1 if harm == "nothing" else 2) and not path.parent.with_suffix(".unfinished").exists()


def test_a_json_file_that_cannot_be_read_is_named(tmp_path: Path):
    for content in ('{"kine": "code"}', "[]", "3", "{", ""):
        (tmp_path / "FAILED.json").write_text(content)
        assert store.failure(tmp_path) == {"kind": "infrastructure", "error": "FAILED.json is not readable"}
    (tmp_path / "scores.json").write_text('{"scores": [')
    with pytest.raises(UserError, match=r"scores.json is damaged .*`ablate audit EXPERIMENT --mend`"):
        store.read_json(tmp_path / "scores.json")


def test_a_full_disk_is_named(tmp_path: Path):
    said = store.explain_os_error(
        OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "not there" / "weights"))
    )
    assert said.startswith(f"the disk is full: could not write {tmp_path}/not there/weights; make room")


def test_the_home_of_a_user_may_be_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ABLATE_HOME", "~/bench")
    assert store.home() == Path.home() / "bench"
    monkeypatch.setenv("ABLATE_HOME", "~nosuchuser/bench")
    with pytest.raises(UserError, match="there is no home ~nosuchuser on this machine"):
        store.home()
