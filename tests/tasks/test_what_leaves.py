"""What leaves this machine: no password, nothing to whoever counts users, and no text."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

import tasks
from contrastive.data import tokens
from contrastive.grid import load as experiment
from contrastive.grid import plan as plans
from tasks import sync, tracking
from tasks.address import masked


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://me:pass@host:5432/db", "postgresql://me:***@host:5432/db"),
        ("postgresql+asyncpg://me:p@s:s@host/db", "postgresql+asyncpg://me:***@host/db"),
        ("API request to https://:tok@host/api failed", "API request to https://:***@host/api failed"),
        ("postgresql://host/db?user=me&password=pass&x=1", "postgresql://host/db?user=me&password=***&x=1"),
        ("host=db password=pass dbname=x", "host=db password=*** dbname=x"),
        ("https://ghp_0123456789abcdefghij@host/x", "https://***@host/x"),
        ("sqlite:////home/me/mlflow.db", "sqlite:////home/me/mlflow.db"),
        ("see https://host:5000/path and me@host", "see https://host:5000/path and me@host"),
    ],
)
def test_addresses_keep_everything_but_their_password(text: str, shown: str):
    assert masked(text) == shown


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "MLFLOW_TRACKING_PASSWORD", "AWS_SECRET_ACCESS_KEY", "PREFECT_API_KEY", "DB_PASS"]
)
def test_the_value_of_a_variable_that_holds_a_credential(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(name, "s3cret-value")
    assert masked("denied for s3cret-value.") == "denied for ***."


def test_both_parts_and_short_or_other_values(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "admin:long-enough")
    monkeypatch.setenv("PGPASSWORD", "abc")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "a-value")
    assert masked("admin:long-enough, long-enough, abc, a-value") == "***, ***, abc, a-value"


def test_whoever_imports_the_project_tells_nobody():
    expected = {"DO_NOT_TRACK": "1", "PREFECT_SERVER_ANALYTICS_ENABLED": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    expected |= {"HF_HUB_DISABLE_TELEMETRY": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    kept = {name: value for name, value in os.environ.items() if name not in expected}
    told = "import os, json, flows; print(json.dumps(dict(os.environ)))"
    done = subprocess.run([sys.executable, "-c", told], env=kept, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout).items() >= expected.items() and expected == tasks.QUIET


def test_no_text_leaves_the_run_folders(home: Path):
    """Also of pictures, whose points are recorded."""
    texts = [f"text number {number}" for number in range(60)]
    pd.DataFrame({"text": texts, "label": ["good", "bad"] * 30}).to_csv(home / "texts.csv", index=False)
    settings = {
        "name": "small",
        "data": {"source": f"file:{home}/texts.csv", "test": 30, "max_length": 16},
        "encoder": {"model": "scratch:bert"},
        "seeds": [0],
        "sections": [
            {"title": "Lengths", "rows": {str(n): {"max_length": n} for n in (8, 16)}, "show": {"tsne": True}}
        ],
    }
    (home / "small.yaml").write_text(yaml.safe_dump(settings))
    plan = plans.make_plan(experiment.load_experiment(home / "small.yaml"))
    for cell in plan.statuses:
        tokens.prepare_tokens(cell.data, cell.encoder, home)
    sync.sync(plan)
    run, *_ = tracking.find_runs(tracking.open_tracker(home), "small", "ablate.kind", "grid")
    artifacts = list((home / "mlartifacts" / "small" / run.info.run_id).rglob("*.*"))
    assert [path.name for path in artifacts] == ["grid.json"] and "text number" not in artifacts[0].read_text()
