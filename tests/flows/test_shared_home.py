"""`ablate doctor --shared`: whether the machines of a home see each other's locks, and what follows if not."""

import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from contrastive.errors import UserError
from contrastive.runs import store
from flows import clean, worker
from tests.e2e.preloaded import ABLATE
from tests.lying_locks import lying_locks


def probe(home: Path, settings: dict[str, str]) -> list[tuple[int | None, str]]:
    environment = os.environ | {"ABLATE_HOME": str(home)} | settings
    command = [ABLATE, "doctor", "--shared"]
    both = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=90)[0] for process in both]
    return [(process.returncode, each) for process, each in zip(both, said, strict=True)]


def test_locks_that_hold_are_used_and_others_replaced(tmp_path: Path):
    (code, said), other = probe(tmp_path, {})
    assert code == 0 and said.startswith("ok") and other == (code, said)
    assert not (tmp_path / "locks" / "use-lock-files").exists()
    (code, said), other = probe(tmp_path, lying_locks(tmp_path))
    assert code == 1 and "held one lock at once" in said and other == (code, said)
    assert (tmp_path / "locks" / "use-lock-files").exists() and not [*tmp_path.glob("locks/probe/*-*")]


@pytest.mark.parametrize("part", ["code", "packages", "data"])
def test_a_worker_is_refused_beside_one_that_would_compute_other_cells(part: str):
    ours: dict[str, Any] = {"code": {"x": "1"}, "packages": {"x": "1"}, "data": {"x": "1"}, "cpu": "", "host": "here"}
    worker.compare(ours, ours | {"host": "there"})
    with pytest.raises(UserError, match=rf"a worker on there has other {part} \(x\)"):
        worker.compare(ours, ours | {"host": "there", part: {"x": "2"}})


def test_the_lock_files_of_a_lost_machine_are_removed_when_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path))
    store.write_atomic(store.lock_files_mark(), "")
    lock, lost = tmp_path / "runs" / "cell" / ".claim", tmp_path / "runs" / "cell" / ".claim.held"
    store.write_atomic(lost, "17\nlost\n")
    with store.locked(lock, timeout=0) as is_free:
        assert not is_free
    with pytest.raises(UserError, match="is this machine"):
        clean.give_back(socket.gethostname())
    clean.give_back("alive")
    assert lost.exists() and "alive holds no lock file" in capsys.readouterr().out
    clean.give_back("lost")
    with store.locked(lock, timeout=0) as is_free:
        assert is_free and lost.exists()
    assert not lost.exists()
