"""`ablate up` as several people share it: PostgreSQL under Prefect and MLflow, passwords, and secrets all over."""

import csv
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg2
import pytest

from flows.serve.servers import any_free_port
from tests.asked import ask
from tests.flows.conftest import ABLATE, CHECKOUT, ablate
from tests.postgres import PASSWORD, databases
from tests.waiting import soon

pytestmark = pytest.mark.full
SECRETS = {
    "PREFECT_SERVER_API_AUTH_STRING": "ablate:prefect-secret-1234",
    "MLFLOW_AUTH_ADMIN_PASSWORD": "mlflow-secret-1234",
    "MLFLOW_FLASK_SERVER_SECRET_KEY": "flask-secret-1234",
    "MLFLOW_TRACKING_PASSWORD": "tracking-secret-1234",
    "HF_TOKEN": "hf_secret-1234",
    "AWS_SECRET_ACCESS_KEY": "aws-secret-1234",
}
LABELS = ("../../x", "<script>alert(1)</script>", "a|b `c` $(touch pwned) \n[d](javascript:e)")
TITLE = "../../x | <script>alert(1)</script> `$(touch pwned)`\n# head"


def hostile(folder: Path) -> Path:
    """An experiment of one cell whose every name would like to be something else."""
    data = folder / "texts `$(touch pwned)` 'a' | <b>.csv"
    with open(data, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for number in range(90):
            writer.writerow([f"'; DROP TABLE runs; -- ../../{number} <img src=x> ${{HOME}}", LABELS[number % 3]])
    experiment = {
        "name": "tiny",
        "description": TITLE,
        "data": {"source": f"file:{data}", "train": 32, "validation": 16, "test": 30, "max_length": 16},
        "encoder": {"model": "scratch:bert", "scratch": {"layers": 1, "hidden": 16, "heads": 2, "vocabulary": 400}},
        "training": {"epochs": 1, "batch_size": 16},
        "evaluation": {"metrics": ["accuracy"]},
        "seeds": [0],
        "sections": [{"title": TITLE, "note": TITLE, "rows": {"ce": {}}}],
    }
    path = folder / "tiny.yaml"
    path.write_text(json.dumps(experiment))
    return path


@pytest.fixture(scope="module")
def settings(postgres: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    prefect, mlflow = databases(postgres, "prefect", "mlflow")
    return SECRETS | {
        "ABLATE_HOME": str(tmp_path_factory.mktemp("home")),
        "ABLATE_PREFECT_PORT": str(any_free_port()),
        "ABLATE_MLFLOW_PORT": str(any_free_port()),
        "PREFECT_API_DATABASE_CONNECTION_URL": prefect.replace("postgresql", "postgresql+asyncpg"),
        "MLFLOW_TRACKING_URI": mlflow,
    }


@pytest.fixture(scope="module")
def printed() -> list[str]:
    """Whatever a command of these tests prints."""
    return []


@pytest.fixture(scope="module")
def up(settings: dict[str, str], printed: list[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*ABLATE, "up"],
        cwd=settings["ABLATE_HOME"],
        env=os.environ | settings | {"PYTHONPATH": str(CHECKOUT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    for line in process.stdout:
        printed.append(line)
        if line.startswith("Ctrl-C"):
            break
    assert process.poll() is None, printed
    yield process
    process.terminate()
    process.wait(60)


@pytest.fixture(scope="module")
def finished(up, settings, printed, tmp_path_factory, postgres) -> str:
    """A flow run on the worker, of a grid of one cell; gives its state as PostgreSQL holds it."""
    path = hostile(tmp_path_factory.mktemp("configs"))
    api = f"http://127.0.0.1:{settings['ABLATE_PREFECT_PORT']}/api"
    environment = os.environ | {
        "PREFECT_API_URL": api,
        "PREFECT_API_AUTH_STRING": SECRETS["PREFECT_SERVER_API_AUTH_STRING"],
    }
    command = [str(Path(sys.executable).parent / "prefect"), "deployment", "run", "ablation-grid/quickstart"]
    asked = [*command, "--param", f"experiment_file={path}"]
    done = subprocess.run(asked, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = re.findall(r"UUID: ([0-9a-f-]{36})", done.stdout)
    query = f"SELECT state_type FROM flow_run WHERE id = '{run}' AND state_type::text = ANY(%s)"
    ended = soon(lambda: rows_of(f"postgresql://{postgres}/prefect", query, [["COMPLETED", "FAILED", "CRASHED"]]))
    for arguments in (["sync", str(path)], ["audit", str(path)]):
        done = ablate(settings, *arguments)
        printed += [done.stdout, done.stderr]
    return str(ended[0][0])


def cell(settings: dict[str, str]) -> str:
    return next((Path(settings["ABLATE_HOME"]) / "runs").iterdir()).name


def test_a_grid_runs_and_both_databases_hold_it(finished, settings, postgres, printed):
    assert finished == "COMPLETED"
    assert "run folders are complete, MLflow agrees with them, the report is up to date\n" in printed, printed
    query = "SELECT t.value, r.status FROM runs r JOIN tags t USING (run_uuid) WHERE t.key = 'ablate.cell'"
    assert rows_of(f"postgresql://{postgres}/mlflow", query) == [(cell(settings), "FINISHED")]
    assert not list(Path(settings["ABLATE_HOME"]).glob("mlflow.db*"))


def test_no_secret_is_printed_logged_recorded_or_seen_in_a_command_line(
    finished, up, settings, postgres, printed, tmp_path
):
    home = Path(settings["ABLATE_HOME"])
    files = {str(path): path.read_bytes() for path in home.rglob("*") if path.is_file()}
    assert {"prefect-server.log", "prefect-worker.log", "mlflow.log", "deploy.log"} <= {
        Path(name).name for name in files
    }
    assert any(name.endswith("provenance.json") for name in files) and any("/reports/" in name for name in files)
    places = files | {"printed": "".join(printed).encode()}
    for child in psutil.Process(up.pid).children(recursive=True):
        places[f"command line of {child.pid}"] = " ".join(child.cmdline()).encode()
    for database in ("prefect", "mlflow"):
        places[database] = content(f"postgresql://{postgres}/{database}")
    assert b"ablate.recorded" in places["mlflow"] and b"ablation-grid" in places["prefect"]
    secrets = [PASSWORD, *(value.rpartition(":")[2] for value in SECRETS.values())]
    assert [(where, secret) for where, text in places.items() for secret in secrets if secret.encode() in text] == []
    assert "cells are in MLflow (postgresql://ablate:***@127.0.0.1:" in places["printed"].decode()


def test_names_stay_names_in_reports_artifacts_shells_and_paths(finished, settings):
    home = Path(settings["ABLATE_HOME"])
    report = (home / "reports" / "output" / "tiny" / "README.md").read_text()
    assert "## ../../x \\| &lt;script&gt;alert(1)&lt;/script&gt; \\`\\$(touch pwned)\\` # head\n" in report
    assert "<script" not in report and "[d](" not in report
    api = f"http://127.0.0.1:{settings['ABLATE_PREFECT_PORT']}/api"
    auth, wanted = SECRETS["PREFECT_SERVER_API_AUTH_STRING"], {"artifacts": {"key": {"any_": ["report-tiny"]}}}
    (shown,) = ask(f"{api}/artifacts/filter", wanted, auth)
    assert "<script" not in shown["data"] and "[d](" not in shown["data"]
    printed = ablate(settings, "cell", cell(settings), "--folder", f"{home}/'; touch pwned; `id`").stdout
    words = shlex.split(printed)
    assert words[-1] == f"{home}/'; touch pwned; `id`" and words[-3] == "contrastive.training.job"
    assert not [*home.parent.rglob("pwned"), *home.parent.glob("x"), *home.rglob("x"), *CHECKOUT.glob("pwned")]


def content(uri: str) -> bytes:
    """Every value of every table, as text."""
    tables = rows_of(uri, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
    rows = [row for (table,) in tables for (row,) in rows_of(uri, f'SELECT t::text FROM "{table}" t')]
    return "\n".join(rows).encode()


def rows_of(uri: str, query: str, values: list[Any] | None = None) -> list[tuple[Any, ...]]:
    with psycopg2.connect(uri) as connection, connection.cursor() as cursor:
        cursor.execute(query, values)
        found = cursor.fetchall()
    connection.close()
    return found


def test_two_machines_with_homes_of_their_own_record_on_one_server(finished, settings, tmp_path, monkeypatch):
    """They share neither files nor locks; the server keeps the files of both."""
    from reports.load import load
    from tasks import record, tracking
    from tests.recorded import cell_folder, grid

    uri = f"http://127.0.0.1:{settings['ABLATE_MLFLOW_PORT']}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "ablate")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", SECRETS["MLFLOW_AUTH_ADMIN_PASSWORD"])
    for number in (0, 1):
        monkeypatch.setenv("ABLATE_HOME", str(tmp_path / f"home-{number}"))
        client = tracking.open_tracker(tmp_path / f"home-{number}")
        record.record_cell(client, "small", cell_folder(f"c{number}s0", "ce", 0, 0.5 + number / 4, steps=3), [])
    record.record_grid(client, "small", grid())
    held = load("small", uri)
    assert {cell: run.status for cell, run in held.cells.items()} == dict.fromkeys(("c0s0", "c1s0"), "finished")
    assert set(held.tsne) == {"c0s0", "c1s0"} and list(held.scores["test.accuracy"]) == [0.5, 0.75]
