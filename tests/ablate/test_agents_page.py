"""The page for agents: a loop follows docs/guide/agents.md to the letter, with calls that are killed."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.waiting import soon

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "agents.md"
TRAIN = '#!/bin/sh\nexec "{python}" train.py "$@"\n'
CODE = """
import pathlib, random, sys
LIFT = 0.0
seed = sys.argv[2]
with open("../runs.txt", "a") as f: f.write(f"{pathlib.Path.cwd().name} {LIFT} {seed}\\n")
print(f"val_loss: {1 - LIFT + random.Random(f'{seed} {LIFT}').gauss(0, .05):.6f}")
"""
PROPOSALS = 30
REAL = {6: 1.0, 17: 2.0, 25: 3.0}  # proposals that are improvements → their lift; the others do nothing
KILLED = {0, 6, 9, 17, 22, 29}


@pytest.fixture
def loop(tmp_path: Path) -> list[str]:
    """The call of the page, in a folder with `best/` and `work/`."""
    (block,) = re.findall(r"```sh\n(git -C work add .*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    best = tmp_path / "best"
    best.mkdir()
    (best / "train.py").write_text(CODE)
    (best / "train.sh").write_text(TRAIN.format(python=sys.executable))
    (best / "train.sh").chmod(0o755)
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "begin"]):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True, cwd=best)
    shutil.copytree(best, tmp_path / "work")
    call = block.replace("REGEX", "val_loss: ([-+0-9.e]+)").replace("ablate judge", "exec ablate judge", 1)
    return ["sh", "-c", call]


def replace_by_copy(folder: Path, of: Path) -> None:
    shutil.rmtree(folder)
    shutil.copytree(of, folder)


@pytest.mark.full
def test_a_loop_that_follows_the_page_keeps_the_improvements_and_loses_nothing(loop, tmp_path: Path):
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "ABLATE_HOME": str(tmp_path / "home")}

    def begin() -> subprocess.Popen[str]:
        return subprocess.Popen(loop, cwd=tmp_path, env=environment, stdout=-1, stderr=-1, text=True)

    best, work, log, kept = tmp_path / "best", tmp_path / "work", tmp_path / "runs.txt", list[int]()
    for number in range(PROPOSALS):
        lift = max([0.0, *(REAL[each] for each in kept)])
        code = CODE.replace("LIFT = 0.0", f"LIFT = {REAL.get(number, lift)}  # {number}")
        (work / "train.py").write_text(code)
        if number in KILLED:
            before, killed = log.stat().st_size if log.exists() else 0, begin()
            soon(lambda before=before: log.exists() and log.stat().st_size > before, 60)
            killed.send_signal(signal.SIGKILL)
            killed.communicate()
        call = begin()
        said, errors = call.communicate()
        assert call.returncode in (0, 1), errors
        told = json.loads(said.splitlines()[-1])
        assert told["number"] == number + 1
        assert told["result"] == ("kept" if call.returncode == 0 else "dropped")
        replace_by_copy(*((best, work) if call.returncode == 0 else (work, best)))
        kept += [number] if call.returncode == 0 else []
    assert kept == [*REAL], kept
    assert f"LIFT = {REAL[kept[-1]]}" in (best / "train.py").read_text()
    words = re.findall(r'"(\w+)":', PAGE.read_text(encoding="utf-8"))
    assert {*words} == {*told}  # the page names each field
    ledger = tmp_path / "ledger"
    runs = [json.loads(line) for line in (ledger / "runs.jsonl").read_text().splitlines()]
    assert max(Counter((run["proposal"], run["side"], run["seed"]) for run in runs).values()) == 1
    began = len(log.read_text().splitlines())
    assert len(runs) <= began <= len(runs) + len(KILLED)  # only runs that were killed ran again
