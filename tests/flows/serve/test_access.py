"""Ports, the password and Prefect's settings of `ablate up`; with a browser and another user: test_up.py."""

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from contrastive.errors import UserError
from flows.serve import access, up
from flows.serve.servers import PORTS, any_free_port, checked_port, only_one, port, url
from tasks.address import tracking_uri


@pytest.mark.parametrize("service", ["prefect", "mlflow"])
def test_a_port_in_use_is_named_before_anything_starts(service, tmp_path, monkeypatch):
    variables = {name: variable for name, (variable, _) in PORTS.items()}
    for variable in variables.values():
        monkeypatch.setenv(variable, str(any_free_port()))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        monkeypatch.setenv(variables[service], str(number))
        with pytest.raises(UserError, match=rf"port {number} .* is in use, .*{variables[service]}={number + 1}"):
            up.up(tmp_path)
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize("given", ["http", "0", "65536", "-1", "4200.5"])
def test_a_port_that_is_none(given, monkeypatch):
    monkeypatch.setenv("ABLATE_MLFLOW_PORT", given)
    with pytest.raises(UserError, match="ABLATE_MLFLOW_PORT is .*between 1 and 65535"):
        port("mlflow")


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_an_address_that_this_machine_has_not(host):
    with pytest.raises(UserError, match=f"{host} is not an address of this machine"):
        checked_port("prefect", host)


def test_where_a_service_is_asked():
    for host, asked in (("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("10.1.1.1", "10.1.1.1")):
        assert url(host, 4200) == f"http://{asked}:4200"


def test_a_password_is_made_once_and_only_its_owner_reads_it(tmp_path: Path):
    made = access.password(tmp_path)
    path = tmp_path / ".access" / "password"
    assert len(made) >= 20 and access.password(tmp_path) == made == path.read_text()
    assert access.password(tmp_path / "other") != made
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_lost_password_takes_the_users_of_mlflow_with_it(tmp_path: Path):
    """They would know the old one alone, and nobody could sign in again."""
    access.password(tmp_path)
    users = tmp_path / ".access" / "users.db"
    users.touch()
    access.password(tmp_path)
    assert users.exists()
    (tmp_path / ".access" / "password").unlink()
    access.password(tmp_path)
    assert not users.exists()


def test_variables_that_the_user_sets_win(tmp_path: Path):
    own = {"PREFECT_SERVER_API_AUTH_STRING": "me:my-own", "MLFLOW_SERVER_ALLOWED_HOSTS": "bench.lab"}
    told = access.server_environment(tmp_path, "10.0.0.5", own)
    assert told.items() >= own.items() and told["PREFECT_API_AUTH_STRING"] == "me:my-own"
    made = access.server_environment(tmp_path, "10.0.0.5", {})
    assert made["MLFLOW_AUTH_ADMIN_PASSWORD"] == access.password(tmp_path)
    assert "10.0.0.5,10.0.0.5:*" in made["MLFLOW_SERVER_ALLOWED_HOSTS"]


def test_mlflow_is_served_from_the_database_that_is_meant(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    told = up.service_environment(tmp_path, "127.0.0.1", "http://127.0.0.1:1/api")
    assert told["MLFLOW_BACKEND_STORE_URI"] == f"sqlite:///{tmp_path}/mlflow.db" == tracking_uri(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:s3cret@there:5000")
    assert "http://me:***@there:5000 (not served from here)" in up.welcome(tmp_path, "http://127.0.0.1:1", "", True)


ASKS = """
from prefect.settings import get_current_settings
print(get_current_settings().api.url, get_current_settings().api.auth_string.get_secret_value())
"""


def test_prefect_finds_the_server_from_the_folder_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_API_")}
    with access.client_settings(tmp_path, "http://127.0.0.1:7/api", 'ablate:pass"wo\\rd') as is_found:
        done = subprocess.run([sys.executable, "-c", ASKS], env=kept, capture_output=True, text=True)
        assert is_found and stat.S_IMODE(Path("prefect.toml").stat().st_mode) == 0o600
    assert done.stdout == 'http://127.0.0.1:7/api ablate:pass"wo\\rd\n', done.stderr
    assert not Path("prefect.toml").exists()


def test_a_prefect_toml_of_the_users_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("prefect.toml").write_text("[api]\n")
    with access.client_settings(tmp_path, "http://127.0.0.1:7/api", "ablate:pass-word") as is_found:
        assert not is_found and "PREFECT_API_URL=http://127.0.0.1:7/api " in up.welcome(
            tmp_path, "http://127.0.0.1:7", "", is_found
        )
    access.forget_stopped_server()
    assert Path("prefect.toml").read_text() == "[api]\n"


def test_the_settings_of_a_killed_one_are_forgotten_and_those_of_a_living_one_are_not(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with access.client_settings(tmp_path, "http://127.0.0.1:7/api", "ablate:pass-word"):
        with only_one(tmp_path):
            access.forget_stopped_server()
            assert Path("prefect.toml").exists()
        access.forget_stopped_server()
        assert not Path("prefect.toml").exists()
