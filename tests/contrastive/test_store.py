"""Run folders: what is not whole is not finished."""

import multiprocessing
import os
import time
from pathlib import Path

import pytest

from contrastive import store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "runs" / "abc"
    (folder / "checkpoint").mkdir(parents=True)
    (folder / "checkpoint" / "weights.safetensors").write_bytes(b"weights" * 100)
    (folder / "metrics.jsonl").write_text('{"step": 0}\n')
    store.mark(folder, "TRAINED")
    (folder / "scores.json").write_text("{}")
    store.mark(folder, "DONE")
    return folder


def test_a_whole_folder_is_finished(folder: Path):
    assert store.finished(folder)
    assert store.damage(folder, "DONE", thorough=True) is None


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


@pytest.mark.parametrize("marker", ["", "{", "[]", '{"files": 3}', "\x00\x01"])
def test_a_broken_marker_is_no_marker(folder: Path, marker: str):
    (folder / "DONE").write_text(marker)
    assert not store.finished(folder)


def test_a_copied_folder_is_still_finished(folder: Path):
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path)
    assert store.finished(folder)


def test_write_atomic_leaves_the_old_file_when_writing_fails(tmp_path: Path):
    path = tmp_path / "file"
    store.write_atomic(path, "old")
    with pytest.raises(TypeError):
        store.write_atomic(path, 3)  # type: ignore[arg-type]
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def _hold(path: Path, started, seconds: float) -> None:
    with store.locked(path):
        started.set()
        time.sleep(seconds)


def test_a_lock_waits_for_another_process_and_is_freed_by_its_death(tmp_path: Path):
    context = multiprocessing.get_context("spawn")
    started = context.Event()
    holder = context.Process(target=_hold, args=(tmp_path / "lock", started, 60))
    holder.start()
    assert started.wait(20)
    began = time.monotonic()
    context.Process(target=_kill_later, args=(holder.pid, 0.5)).start()
    with store.locked(tmp_path / "lock"):
        assert time.monotonic() - began > 0.4
    holder.join()


def _kill_later(pid: int, seconds: float) -> None:
    time.sleep(seconds)
    os.kill(pid, 9)


@pytest.mark.parametrize("content", ['{"kine": "code"}', "[]", "3", "{", ""])
def test_a_harmed_failure_says_that_it_is_not_readable(content: str, tmp_path: Path):
    (tmp_path / "FAILED.json").write_text(content)
    assert store.failure(tmp_path) == {"kind": "infrastructure", "error": "FAILED.json is not readable"}
