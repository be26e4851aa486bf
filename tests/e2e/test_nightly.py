"""`ablate nightly` for real: nights of a panel of seconds, one of them with a harmful change of the code."""

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from contrastive.errors import UserError
from flows.night.verdict_settings import read_verdict_settings
from flows.serve import prefect_setup
from reports.nightly.page import write_nightly
from tests.asked import ask
from tests.e2e.conftest import caller, kept
from tests.e2e.planted import CHECKOUT, SETTINGS, copy_of_the_code, harm, panel, repeat_timings_twice
from tests.e2e.preloaded import preloaded


class Received(HTTPServer):
    """A webhook's other side."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, object]] = []
        bodies = self.bodies

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *arguments: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server_port}/hook"
        threading.Thread(target=self.serve_forever, daemon=True).start()


@pytest.fixture(scope="module")
def webhook() -> Iterator[Received]:
    server = Received()
    yield server
    server.shutdown()


@pytest.fixture(scope="module")
def nights(
    tmp_path_factory: pytest.TempPathFactory, webhook: Received, prefect_home: Path, server: str, empty_store: Path
) -> dict[str, Any]:
    """Two nights as they should be, one at which accuracy is worse, and that code against its last commit."""
    home, code = tmp_path_factory.mktemp("home"), copy_of_the_code(tmp_path_factory.mktemp("code"))
    repeat_timings_twice(code)
    shutil.copy(empty_store, home / "mlflow.db")
    (home / "verdict.yaml").write_text(yaml.safe_dump(SETTINGS))
    arguments = ("nightly", panel(home), "--engine", "inline", "--settings", home / "verdict.yaml")
    settings = {"PREFECT_HOME": str(prefect_home), "PREFECT_API_URL": server, "ABLATE_WEBHOOK": webhook.address}
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
    return {"home": home, "ended": ended, "texts": texts, "code": code} | asked


@pytest.mark.e2e
@pytest.mark.full
def test_the_second_night_says_that_every_score_is_the_same(nights):
    assert [done.returncode for done in nights["ended"][:2]] == [0, 0], nights["ended"][1].stderr
    rows = [row for row in nights["texts"][1].splitlines() if row.startswith("| test.")]
    assert len(rows) == 2 and all(row.endswith("| unchanged: the same at every seed |") for row in rows), rows
    assert "night 2 of the window of 2" in nights["texts"][1]  # of timings


@pytest.mark.e2e
@pytest.mark.full
def test_a_harmful_change_fails_the_night_and_names_the_metric_everywhere(nights, webhook, server):
    last, rows = nights["ended"][2], nights["texts"][2].splitlines()
    assert last.returncode == 1 and "  test.accuracy: regressed\n" in last.stderr, last.stderr
    assert next(row for row in rows if row.startswith("| test.accuracy")).endswith("| **regressed** |")
    other = next(row for row in rows if row.startswith("| test.macro"))
    assert "+0.0000 ± 0.0000" in other and other.endswith("| unchanged: the same at every seed |")
    assert "1 regressed (test.accuracy)" in rows[0]
    told = webhook.bodies[-1]
    assert len(webhook.bodies) == 3 and told["failed"] and told["verdicts"]["test.accuracy"] == "regressed"
    assert not webhook.bodies[1]["failed"]
    wanted = {"flows": {"name": {"any_": ["nightly"]}}, "sort": "START_TIME_DESC"}
    runs = ask(f"{server}/flow_runs/filter", wanted)
    assert [run["state_type"] for run in runs] == ["FAILED", "FAILED", "COMPLETED", "COMPLETED"]
    assert all("test.accuracy" in run["state"]["message"] for run in runs[:2])
    held = ask(f"{server}/artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [runs[1]["id"]]}}})
    assert nights["texts"][2] in [one["data"] for one in held]


@pytest.mark.e2e
@pytest.mark.full
def test_against_a_commit_says_what_became_worse_since_and_records_no_night(nights):
    done, page = nights["HEAD"], (nights["home"] / "reports/output/nightly/against.md").read_text()
    assert done.returncode == 1 and "  test.accuracy: regressed\n" in done.stderr, done.stderr
    rows = {row.split(" | ")[0]: row for row in page.splitlines() if row.startswith("| test.")}
    assert rows["| test.accuracy"].endswith("| **regressed** |")
    assert rows["| test.macro_f1"].endswith("| unchanged: the same at every seed |")
    assert (nights["home"] / "reports/output/nightly/README.md").read_text() == nights["texts"][2]
    listed = subprocess.run(["git", "-C", nights["code"], "worktree", "list"], capture_output=True, text=True)
    assert len(listed.stdout.splitlines()) == 1
    unknown = nights["nowhere"]
    assert unknown.returncode == 2 and unknown.stderr.strip().endswith("has no commit nowhere"), unknown.stderr


@pytest.mark.e2e
@pytest.mark.full
def test_the_nights_alone_are_kept_and_the_report_is_built_from_mlflow_byte_for_byte(nights, tmp_path):
    home = nights["home"]
    write_nightly(f"sqlite:///{home}/mlflow.db", tmp_path)
    for name in ("README.md", "README.zh.md"):
        assert (tmp_path / name).read_bytes() == (home / "reports/output/nightly" / name).read_bytes()
    assert "退步" in (tmp_path / "README.zh.md").read_text()
    assert not (home / "nightly").exists() and not (home / "runs").exists()


def test_a_webhook_that_fails_is_a_warning_without_its_address(monkeypatch, caplog):
    from flows.night import webhook

    for address in ("http://127.0.0.1:1/services/secret-token", "file:///etc/secret-token"):
        monkeypatch.setenv(webhook.VARIABLE, address)
        webhook.post({"text": "x"})
    assert len(caplog.records) == 2 and "secret-token" not in caplog.text


def test_settings_that_are_wrong_are_named(tmp_path):
    path = tmp_path / "verdict.yaml"
    path.write_text("window: 1\nquality: {test.accuracy: 0}\nspeed: 1")
    with pytest.raises(UserError, match=r"verdict.yaml: window: .*\n.*quality.test.accuracy: .*greater than 0"):
        read_verdict_settings(path)
    path.write_text("- a list")
    with pytest.raises(UserError, match="no map of settings"):
        read_verdict_settings(path)
    assert read_verdict_settings(CHECKOUT / "configs/nightly/verdict.yaml").window == 10


def test_the_automation_for_zombies_knows_the_flow():
    declared = yaml.safe_load(prefect_setup.AUTOMATION.read_text())
    assert "nightly" in declared["trigger"]["match_related"]["prefect.resource.name"]
    (deployment,) = [
        one for one in yaml.safe_load((CHECKOUT / "prefect.yaml").read_text())["deployments"] if "schedules" in one
    ]
    assert deployment["entrypoint"] == "flows/nightly.py:nightly" and deployment["name"] == "nightly"
