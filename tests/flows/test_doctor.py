"""What a machine lacks."""

import socket

import pytest
import torch

from flows import doctor


@pytest.fixture
def found(tmp_path, monkeypatch):
    monkeypatch.setenv("ABLATE_HOME", str(tmp_path))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return lambda: {check.name: check for check in doctor.checks()}


def test_a_machine_with_everything_passes_and_nothing_is_written(found, tmp_path):
    checks = found()
    assert {name for name, check in checks.items() if check.ok is False} <= {"disk"}
    assert len(checks) == 9
    assert "does not exist yet" in checks["MLflow store"].detail
    assert list(tmp_path.iterdir()) == []


def test_what_is_wrong_comes_with_advice(found, monkeypatch):
    monkeypatch.setattr(doctor, "MODEL", "package:no-such-model")
    monkeypatch.setenv("ABLATE_PREFECT_PORT", "many")
    checks = found()
    wrong = {name for name, check in checks.items() if check.ok is False}
    assert wrong - {"disk"} == {"model and data", "prefect port"}
    assert "no-such-model is not installed" in checks["model and data"].detail
    assert all(check.advice for check in checks.values() if check.ok is not True and check.name != "MLflow store")


def test_a_home_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    check = doctor.writable(tmp_path / "file" / "home")
    assert check.ok is False and "Not a directory" in check.detail and "ABLATE_HOME" in check.advice


@pytest.mark.parametrize(("free", "ok"), [(0.5, False), (5, None), (50, True)])
def test_disk(free, ok, tmp_path, monkeypatch):
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda place: type("Usage", (), {"free": free * doctor.GIB}))
    assert doctor.disk(tmp_path / "not" / "there").ok is ok


def test_database(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    path = tmp_path / "mlflow # 1.db"
    path.write_bytes(b"")
    assert doctor.database(path) == ("MLflow store", True, str(path), "")
    path.write_bytes(b"not a database" * 100)
    assert doctor.database(path).ok is False


def test_a_tracking_uri_is_shown_without_its_password(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "postgresql://me:hush@host/db")
    assert doctor.database(tmp_path).detail == "MLFLOW_TRACKING_URI is postgresql://me:***@host/db; not checked"


def test_a_port_in_use(monkeypatch):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        monkeypatch.setenv("ABLATE_MLFLOW_PORT", str(other.getsockname()[1]))
        assert doctor.service("mlflow", "/health").ok is None


def test_an_installation_that_gives_verdicts_alone_lacks_nothing(found, monkeypatch):
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    checks = found()
    assert all(check.ok is not False for name, check in checks.items() if name != "disk")
    assert "pip install '.[train]' -c constraints.txt" in checks["training"].advice and "model and data" not in checks


def test_without_a_gpu_the_training_on_it_is_said_to_be_impossible(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    (check,) = doctor.gpu_checks()
    assert check.ok is False and "no GPU" in check.detail


@pytest.mark.parametrize(
    ("shown", "ok", "words"),
    [
        ({}, True, "10 steps, 512 texts a second, 800 MiB at most; loss 0.700 at first, 0.500 at last"),
        ({"equal bits": True}, True, "the same bits as before"),
        ({"equal bits": False}, False, "weights differ"),
        ({"error": "RuntimeError: no kernel"}, False, "no kernel"),
        ({"name": "out of memory, halved", "micro-batch": 80}, True, "80 texts at a time fitted"),
        ({"name": "out of memory, halved"}, None, "the batch fitted"),
    ],
)
def test_a_cell_trained_on_the_gpu_is_told_in_words(shown, ok, words):
    row = {"name": "bf16", "steps": 10, "texts/s": 512.2, "peak MiB": 800, "first loss": 0.7, "last loss": 0.5}
    check = doctor.trained_check(row | shown)
    assert check.ok is ok and words in check.detail
    assert check.ok is not False or "report it" in check.advice
