"""Ports, hosts, databases and passwords given to `ablate up`: what cannot be served is named before it starts."""

import socket

import pytest

from contrastive.errors import UserError
from flows.serve import passwords, ports
from flows.serve import up as services
from tasks.tracking_address import is_database, tracking_uri


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
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    if uri:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    told = services.service_environment(tmp_path, "127.0.0.1", "http://127.0.0.1:1/api")
    assert told["MLFLOW_BACKEND_STORE_URI"] == (uri or f"sqlite:///{tmp_path}/mlflow.db") == tracking_uri(tmp_path)
    assert is_database(tracking_uri(tmp_path)) == ("not served" not in shown)


GIVEN = {
    "PREFECT_SERVER_API_AUTH_STRING": "admin:a-long-password",
    "MLFLOW_AUTH_ADMIN_PASSWORD": "another-password",
    "MLFLOW_FLASK_SERVER_SECRET_KEY": "a-key-of-its-own",
}


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_loopback_needs_no_password(host):
    passwords.demand_passwords(host, {}, mlflow=True)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org", "localhost.example.org", "", "127.1"])
def test_any_other_address_demands_them_all(host):
    with pytest.raises(UserError, match=f"{', '.join(GIVEN)} to a password of 12"):
        passwords.demand_passwords(host, {}, mlflow=True)
    passwords.demand_passwords(host, GIVEN, mlflow=True)


@pytest.mark.parametrize("missing", GIVEN)
def test_each_is_demanded_and_none_may_be_short(missing):
    for weak in ({}, {missing: ""}, {missing: "admin:short"}):
        with pytest.raises(UserError, match=f"set {missing} to"):
            passwords.demand_passwords("0.0.0.0", {k: v for k, v in GIVEN.items() if k != missing} | weak, mlflow=True)


def test_an_mlflow_that_is_served_elsewhere_needs_none_here():
    passwords.demand_passwords("0.0.0.0", {passwords.PREFECT: GIVEN[passwords.PREFECT]}, mlflow=False)


def test_mlflows_password_may_stand_in_its_own_configuration(tmp_path):
    path = tmp_path / "auth.ini"
    path.write_text("[mlflow]\nadmin_password = 100%-another-password\n")
    rest = {name: value for name, value in GIVEN.items() if name != "MLFLOW_AUTH_ADMIN_PASSWORD"}
    passwords.demand_passwords("0.0.0.0", rest | {"MLFLOW_AUTH_CONFIG_PATH": str(path)}, mlflow=True)


def test_nothing_starts_for_an_address_without_passwords(tmp_path, monkeypatch):
    for name in GIVEN:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UserError, match="other machines can reach 0.0.0.0"):
        services.up(tmp_path, "0.0.0.0")
    assert list(tmp_path.iterdir()) == []
