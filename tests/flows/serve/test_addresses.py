"""Ports, hosts and databases that `ablate up` is given: what cannot be served is named before anything starts."""

import socket

import pytest

from contrastive.errors import UserError
from flows.serve import ports
from flows.serve import up as services


@pytest.mark.parametrize("service", ["prefect", "mlflow"])
def test_a_port_in_use_is_named_before_anything_starts(service, tmp_path, monkeypatch):
    variables = {name: variable for name, (variable, _) in ports.PORTS.items()}
    for variable in variables.values():
        monkeypatch.setenv(variable, str(ports.any_free_port()))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        monkeypatch.setenv(variables[service], str(number))
        with pytest.raises(UserError, match=rf"port {number} .* is in use .*{variables[service]}={number + 1}"):
            services.up(tmp_path)
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize("given", ["http", "0", "65536", "-1", "4200.5"])
def test_a_port_that_is_none(given, monkeypatch):
    monkeypatch.setenv("ABLATE_MLFLOW_PORT", given)
    with pytest.raises(UserError, match="ABLATE_MLFLOW_PORT is .*between 1 and 65535"):
        ports.port("mlflow")


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_an_address_that_this_machine_has_not(host):
    with pytest.raises(UserError, match=f"{host} is no address of this machine"):
        ports.free_port("prefect", host)


@pytest.mark.parametrize(
    ("host", "asked"),
    [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("::1", "[::1]"), ("10.1.1.1", "10.1.1.1")],
)
def test_where_a_service_is_asked(host, asked):
    assert ports.url(host, 4200) == f"http://{asked}:4200"


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        (None, "http://127.0.0.1:"),
        ("sqlite:////somewhere/other.db", "http://127.0.0.1:"),
        ("http://me:s3cret@there:5000", "http://me:***@there:5000 (MLFLOW_TRACKING_URI; not served from here)"),
    ],
)
def test_mlflow_is_served_from_the_database_that_is_meant_or_not_at_all(uri, shown, tmp_path, monkeypatch):
    from tasks.tracking_address import is_database, tracking_uri

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    if uri:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    told = services.service_environment(tmp_path, "127.0.0.1", "http://127.0.0.1:1/api")
    assert told["MLFLOW_BACKEND_STORE_URI"] == (uri or f"sqlite:///{tmp_path}/mlflow.db") == tracking_uri(tmp_path)
    assert is_database(tracking_uri(tmp_path)) == ("not served" not in shown)
