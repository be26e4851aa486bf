"""`ablate nightly` for real: nights of a panel of seconds, one of them with a harmful change, and a search for it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

from contrastive.errors import UserError
from flows.panel import failures, measure_panel, read_settings, surroundings
from reports.night import write_nights
from tasks.nights import past
from tests.asked import ask
from tests.e2e.conftest import caller, kept
from tests.e2e.planted import CHECKOUT, SETTINGS, copy_of_the_code, harm, panel
from tests.e2e.preloaded import preloaded
from tests.reports.made import made, put


@pytest.fixture(scope="module")
def nights(
    tmp_path_factory: pytest.TempPathFactory, prefect_home: Path, server: str, empty_store: Path
) -> dict[str, Any]:
    """Two nights as they should be, one at which accuracy is worse, and that code against its last commit."""
    home, code = tmp_path_factory.mktemp("home"), copy_of_the_code(tmp_path_factory.mktemp("code"))
    shutil.copy(empty_store, home / "mlflow.db")
    (home / "verdict.yaml").write_text(yaml.safe_dump(SETTINGS))
    arguments = ("nightly", panel(home), "--engine", "inline", "--settings", home / "verdict.yaml")
    settings = {"PREFECT_HOME": str(prefect_home), "PREFECT_API_URL": server}
    ended, texts = [], []
    with preloaded(kept(settings) | {"PYTHONPATH": str(code)}) as line:
        for number in range(3):
            if number == 2:
                harm(code)
            ended.append(caller(settings, line)(home, *arguments, cwd=home))
            texts.append((home / "reports/output/nightly/README.md").read_text())
        asked = {
            commit: caller(settings, line)(home, *arguments, "--against", commit, cwd=home)
            for commit in ("HEAD", "nowhere")
        }
        asked["acknowledged"] = caller(settings, line)(home, "nightly", "--acknowledge", "meant", cwd=home)
    return {"home": home, "ended": ended, "texts": texts, "code": code} | asked


@pytest.mark.full
def test_the_second_night_says_that_every_score_is_the_same_and_progress_is_passed_on(nights):
    assert [done.returncode for done in nights["ended"][:2]] == [0, 0], nights["ended"][1].stderr
    assert "[5/5]" in nights["ended"][0].stderr
    assert nights["texts"][1].startswith("# Nightly: 2 the same at every seed\n"), nights["texts"][1]
    assert "night 2 of the 5 that are needed" in nights["texts"][1]  # of timings


@pytest.mark.full
def test_a_harmful_change_fails_the_night_and_names_the_score_everywhere(nights, server):
    last, rows = nights["ended"][2], nights["texts"][2].splitlines()
    assert last.returncode == 1 and "  accuracy (test) of ce: worse\n" in last.stderr, last.stderr
    assert rows[0] == "# Nightly: 1 worse (accuracy (test) of ce), 1 the same at every seed"
    assert any(row.startswith("| ce |") and "▼ worse " in row for row in rows)
    wanted = {"flows": {"name": {"any_": ["nightly"]}}, "sort": "START_TIME_DESC"}
    runs = ask(f"{server}/flow_runs/filter", wanted)
    assert [run["state_type"] for run in runs] == ["FAILED", "FAILED", "COMPLETED", "COMPLETED"]
    assert all("accuracy (test) of ce" in run["state"]["message"] for run in runs[:2])
    held = ask(f"{server}/artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [runs[1]["id"]]}}})
    assert nights["texts"][2] in [one["data"] for one in held]


@pytest.mark.full
def test_against_a_commit_says_what_became_worse_since_and_records_no_night(nights):
    done, page = nights["HEAD"], (nights["home"] / "reports/output/nightly/against.md").read_text()
    assert done.returncode == 1 and "  accuracy (test) of ce: worse\n" in done.stderr, done.stderr
    assert "▼ worse " in page and "1 the same at every seed" in page
    listed = subprocess.run(["git", "-C", nights["code"], "worktree", "list"], capture_output=True, text=True)
    assert len(listed.stdout.splitlines()) == 1
    unknown = nights["nowhere"]
    assert unknown.returncode == 125 and unknown.stderr.strip().endswith("has no commit nowhere"), unknown.stderr


@pytest.mark.full
def test_the_nights_alone_are_kept_with_what_was_acknowledged_and_the_page_is_built_from_mlflow(
    nights, tmp_path, monkeypatch
):
    home = nights["home"]
    assert nights["acknowledged"].returncode == 0, nights["acknowledged"].stderr
    monkeypatch.setenv("ABLATE_HOME", str(home))
    recorded = past()
    assert [night.acknowledged for night in recorded] == ["", "", "meant"]
    write_nights(recorded, tmp_path)
    assert (tmp_path / "README.md").read_bytes() == (home / "reports/output/nightly/README.md").read_bytes()
    assert "- meant" not in nights["texts"][2] and ": meant" in (tmp_path / "README.md").read_text()
    assert not (home / "nightly").exists() and not (home / "runs").exists()


def git(code: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=A", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", "-C", str(code), *identity, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(code: Path, subject: str) -> str:
    git(code, "commit", "--quiet", "--all", "--allow-empty", "--message", subject)
    return git(code, "rev-parse", "HEAD")


@pytest.mark.full
def test_git_bisect_names_the_commit_that_does_harm_and_skips_what_cannot_be_measured(
    tmp_path, prefect_home, server, empty_store
):
    """As docs/guide/nightly.md has it."""
    code, home = copy_of_the_code(tmp_path / "code"), tmp_path / "home"
    home.mkdir()
    (home / "verdict.yaml").write_text(yaml.safe_dump(SETTINGS))
    good = commit(code, "as it should be")
    broken = code / "contrastive/grid/expand.py"
    text = broken.read_text()
    broken.write_text(f"raise RuntimeError\n{text}")
    commit(code, "cannot be measured")
    broken.write_text(text)
    commit(code, "can again")
    harm(code)
    wanted = commit(code, "does harm")
    commit(code, "harmless")
    command = ["ablate", "nightly", panel(home), "--settings", home / "verdict.yaml", "--engine", "inline"]
    settings = {"PREFECT_HOME": str(prefect_home), "PREFECT_API_URL": server, "ABLATE_HOME": str(home)}
    settings |= {"PYTHONPATH": str(code), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    git(code, "bisect", "start", "HEAD", good)
    searched = subprocess.run(
        ["git", "-C", str(code), "bisect", "run", *map(str, command), "--against", good],
        env=kept(settings), capture_output=True, text=True,
    )  # fmt: skip
    assert f"{wanted} is the first bad commit" in searched.stdout, searched.stdout + searched.stderr
    assert len(list((home / "cache/nightly").iterdir())) == 1  # the good commit is measured once


def test_settings_that_are_wrong_are_named(tmp_path):
    path = tmp_path / "verdict.yaml"
    path.write_text("window: 1\nquality: {test.accuracy: 0}\nspeed: 1")
    with pytest.raises(UserError, match=r"verdict.yaml: window: .*\n.*quality.test.accuracy: .*greater than 0"):
        read_settings(path)
    path.write_text("- a list")
    with pytest.raises(UserError, match="verdict.yaml: : Input should be a valid dictionary"):
        read_settings(path)
    shipped = CHECKOUT / "configs"
    assert read_settings(shipped / "nightly/verdict.yaml").window == 10


def test_a_panel_whose_values_are_not_chosen_yet_is_refused(tmp_path: Path):
    with pytest.raises(UserError, match="not chosen yet: run `ablate run"):
        measure_panel(CHECKOUT / "configs" / "study" / "terms.yaml", tmp_path / "home", "local", CHECKOUT)


def test_a_panel_gets_the_address_and_the_password_of_this_server(tmp_path: Path):
    given = {PREFECT_API_URL: "http://127.0.0.1:1/api", PREFECT_API_AUTH_STRING: "somebody:secret"}
    with temporary_settings(given):
        found = surroundings(tmp_path, CHECKOUT)
    assert (found["PREFECT_API_URL"], found["PREFECT_API_AUTH_STRING"]) == tuple(given.values())


def test_cells_without_a_result_are_named():
    _, results = made({"ce": {"test.accuracy": [0.7, 0.8]}})
    put(results.cells["ce-0"], status="failed", error="no luck")
    found = failures(results, {"ce": ["ce-0", "ce-1", "absent"]})
    assert found == ["ce, seed number 1: failed: no luck", "ce, seed number 3: not in MLflow"]


def test_the_automation_for_zombies_knows_the_flow():
    declared = yaml.safe_load((CHECKOUT / "configs/automations/zombie-flows.yaml").read_text())
    assert "nightly" in declared["trigger"]["match_related"]["prefect.resource.name"]
    (deployment,) = [
        one for one in yaml.safe_load((CHECKOUT / "prefect.yaml").read_text())["deployments"] if "schedules" in one
    ]
    assert deployment["entrypoint"] == "flows/nightly.py:nightly" and deployment["name"] == "nightly"
