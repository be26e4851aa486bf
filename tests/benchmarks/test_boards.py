"""Readers of public boards on made-up repositories, and the committed pages against the committed facts."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from benchmarks.boards import __main__ as boards
from benchmarks.boards import modded_nanogpt
from benchmarks.boards.clone import Clone
from contrastive.errors import UserError

ROOT = Path(__file__).parents[2]
GOLF, TRACK_3, PEFT = boards.BOARDS


def repository(folder: Path, files: dict[str, Any]) -> Clone:
    """Make a repository with one commit of some files; what is no text is written as JSON."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    author = ("-c", "user.name=A", "-c", "user.email=a@b")
    for words in (("init", "-q"), ("add", "-A"), (*author, "commit", "-q", "-m", "facts")):
        subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True)
    return Clone(folder)


def facts_of(clone: Clone, folder: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    name = boards.read_clone(clone, folder)
    source = json.loads((folder / "sources.json").read_text(encoding="utf-8"))[name]
    assert source["commit"] == clone.git("rev-parse", "HEAD").strip()
    assert source["address"] == boards.BOARDS[name].ADDRESS and source["licence"] and source["committed"]
    return pd.read_csv(folder / f"{name}.csv"), source


def test_a_folder_that_is_no_clone_is_an_error_of_one_line(tmp_path: Path, capsys):
    with pytest.raises(SystemExit):
        boards.main([str(tmp_path / "none")])
    said = capsys.readouterr().err
    assert said.startswith("git ls-tree fails in") and said.count("\n") == 1


def test_seeds_of_a_record_are_read_under_any_name(tmp_path: Path):
    """Those without a value for each seed are left out, and of one day the best record is the last."""
    records = {
        "2026-03-01_a": {"date": "2026-03-01", "seed_results": {"1": {"val_bpb": 1.2}, "2": 1.3}},
        "2026-03-02_b": {"date": "2026-03-02T01:00", "seeds": [1, 2], "seed_scores": [1.0, 1.1]},
        "2026-03-02_c": {"date": "2026-03-02", "seeds": {"1": 1.15, "2": 1.15}},
        "2026-03-03_d": {"date": "2026-03-03", "val_bpb": 1.0, "seeds": [1, 2, 3]},
        "2026-03-04_e": {"date": "2026-03-04", "seed_results": {"1": {"val_bpb": 0.9}}},
    }
    folder = boards.BOARDS[GOLF].FOLDER
    clone = repository(tmp_path / "clone", {f"{folder}/{name}/submission.json": own for name, own in records.items()})
    facts, source = facts_of(clone, tmp_path)
    assert facts["row"].tolist() == ["a", "a", "c", "c", "b", "b"] and (source["rows"], source["runs"]) == (3, 6)
    assert facts["val_bpb"].tolist() == [1.2, 1.3, 1.15, 1.15, 1.0, 1.1]
    assert facts["file"][0] == f"{folder}/2026-03-01_a/submission.json"


def test_losses_are_those_at_the_steps_that_a_result_claims(tmp_path: Path):
    """Also of several runs in a log, a run in two files, averaged weights, and a table in place of logs."""
    one = "step:90/100 val_loss:3.3\nstep:100/100 val_loss:3.25 train_time:1s\n"
    two = one.replace("3.3", "3.4").replace("3.25", "3.26")
    averaged = "step:50/90 val_loss:3.29 val_avg_loss:3.29 val_ema_loss:3.27 train_time:1s\n"
    table = "| seed | step 50 |\n| -: | -: |\n| 0 | 3.271 |\n| 1 | 3.273 |\n| **mean** | **3.272** |\n"
    history = "".join(
        f"| {number} | {steps} | 3.2 (n={count})✓ | [Muon](https://x) a | 2026/05/0{number} | [log](results/{log}) |\n"
        for number, steps, count, log in (
            (1, "100(!)", 2, "one.txt"),
            (2, "90", 2, "20260502_two/log.txt"),
            (3, "50", 1, "20260503_three/a.txt"),
            (4, "50", 2, "20260504_four/README.md"),
        )
    )
    files = {
        "README.md": history,
        "results/one.txt": one + two,
        "results/20260502_two/log.txt": one + two,
        "results/20260502_two/copies/again.out": one,
        "results/20260503_three/a.txt": averaged,
        "results/20260504_four/README.md": table,
    }
    folder = modded_nanogpt.FOLDER
    facts, source = facts_of(
        repository(tmp_path / "clone", {f"{folder}/{name}": own for name, own in files.items()}), tmp_path
    )
    assert facts["row"].unique().tolist() == ["#1 Muon a", "#2 two", "#3 three", "#4 four"]
    assert facts["val_loss"].tolist() == [3.25, 3.26, 3.3, 3.4, 3.27, 3.271, 3.273] and source["runs"] == 7
    assert facts["adjusted_loss"][0] == pytest.approx(3.25 + 0.0045 * 0.5)


def test_the_test_accuracy_of_each_method_is_read(tmp_path: Path):
    run = {"created_at": "2026-07-14T13:26:19+00:00", "train_config": {"seed": 0}}
    metrics = [{"valid accuracy": 0.5}, {"test accuracy": 0.25, "train loss": 0.7}]
    path = f"{boards.BOARDS[PEFT].FOLDER}/lora--llama-3.2-3B-rank32.json"
    facts, _ = facts_of(
        repository(tmp_path / "clone", {path: {"run_info": run, "train_info": {"metrics": metrics}}}), tmp_path
    )
    assert facts.iloc[0].tolist() == ["lora rank32", "2026-07-14", 0, 0.25, path]


def test_a_clone_of_something_else_is_refused(tmp_path: Path):
    with pytest.raises(UserError, match="none of the boards' folders"):
        boards.read_clone(repository(tmp_path, {"a.txt": "a"}), tmp_path)


@pytest.mark.parametrize("name", boards.BOARDS)
def test_the_committed_page_says_what_the_committed_facts_say(name: str):
    """So do the guide's numbers of rows and runs, its commit and its headline."""
    folder = ROOT / boards.FACTS
    headline = str(boards.verdicts_of(name, folder)).removeprefix(f"{name}: ")
    page = (ROOT / boards.PAGES / name / "README.md").read_text(encoding="utf-8")
    assert f"**{headline}**" in page
    source = json.loads((folder / "sources.json").read_text(encoding="utf-8"))[name]
    facts = pd.read_csv(folder / f"{name}.csv")
    assert (facts["row"].nunique(), len(facts)) == (source["rows"], source["runs"])
    assert facts["file"].str.startswith(source["folder"]).all()
    text = " ".join((ROOT / "docs" / "boards.md").read_text(encoding="utf-8").split())
    assert f"{source['address']}/tree/{source['commit']}" in text and headline in text
