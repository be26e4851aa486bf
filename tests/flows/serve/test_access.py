"""Ports and the password of `ablate up`; with a browser and another user: test_up.py."""

import socket
import stat
from pathlib import Path

import pytest

from contrastive.errors import UserError
from flows.serve import up
from flows.serve.servers import PORTS, any_free_port, free_port
from tasks.address import tracking_uri


def test_a_port_in_use_is_named_before_anything_starts(tmp_path, monkeypatch):
    monkeypatch.setenv(PORTS["prefect"][0], str(any_free_port()))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        monkeypatch.setenv(PORTS["mlflow"][0], str(number))
        with pytest.raises(UserError, match=rf"port {number} is in use, .*ABLATE_MLFLOW_PORT={number + 1}"):
            up.up(tmp_path)
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize("given", ["http", "0", "65536"])
def test_a_port_that_is_none(given, monkeypatch):
    monkeypatch.setenv("ABLATE_MLFLOW_PORT", given)
    with pytest.raises(UserError, match="ABLATE_MLFLOW_PORT is .*between 1 and 65535"):
        free_port("mlflow")


def test_a_password_is_made_once_and_only_its_owner_reads_it(tmp_path: Path):
    made, path, users = up.password(tmp_path), tmp_path / ".access" / "password", tmp_path / ".access" / "users.db"
    users.touch()
    assert len(made) >= 20 and up.password(tmp_path) == made == path.read_text() and users.exists()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.unlink()
    assert up.password(tmp_path) != made and not users.exists()  # MLflow's users would know the lost password alone


def test_the_environment_of_the_services(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    variables = up.service_environment(tmp_path, "http://127.0.0.1:1/api")
    assert variables["MLFLOW_BACKEND_STORE_URI"] == f"sqlite:///{tmp_path}/mlflow.db" == tracking_uri(tmp_path)
    assert variables["MLFLOW_AUTH_ADMIN_PASSWORD"] == up.password(tmp_path)
    monkeypatch.setenv("PREFECT_SERVER_API_AUTH_STRING", "me:my-own")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:s3cret@there:5000")
    assert up.service_environment(tmp_path, "")["PREFECT_API_AUTH_STRING"] == "me:my-own"
    assert "http://me:***@there:5000 (not served from here)" in up.welcome(tmp_path, "http://127.0.0.1:1", "", "x")
