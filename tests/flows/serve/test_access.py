"""Ports, hosts and passwords of `ablate up`, and who is let in; with a browser and curl: test_up.py."""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from contrastive.errors import UserError
from flows.serve import passwords, ports
from flows.serve import up as services
from flows.serve.server_access import NOBODY, OwnPagesAndUser, own_users, owner
from tasks.tracking_address import is_database, tracking_uri
from tests.flows.conftest import as_user


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


async def app(*_: object) -> None:
    raise AssertionError("not called here")


def refusal(host: str | None, origin: str | None = None, **trusted: object) -> str:
    headers = [(name, value.encode()) for name, value in ((b"host", host), (b"origin", origin)) if value is not None]
    scope = {"type": "http", "headers": headers, "server": ("127.0.0.1", 4200)}
    return OwnPagesAndUser(app, **trusted).refusal(scope)


def test_own_pages_are_let_in_by_any_name_of_loopback():
    for host in ("127.0.0.1:4200", "localhost:4200", "LOCALHOST:4200", "localhost", "127.0.0.1:14200"):
        port = host[host.rfind(":") :] if host[-1].isdigit() else ""
        for origin in (None, f"http://127.0.0.1{port}", f"http://localhost{port}"):
            assert refusal(host, origin) == ""


OTHER_NAMES = """evil.com evil.com:4200 127.0.0.1.evil.com 10.evil.com:5000 localhost.evil.com 10.0.0.5:1
localhost@evil.com evil.com#@localhost localhost:port [::1 127.1:4200 0.0.0.0:1 [::1]:4200 127.0.0.9:4200
evil.com@127.0.0.1 127.0.0.1/evil.com 127.0.0.1#.evil.com"""
OTHER_PAGES = """http://evil.com null http://localhost:3000 http://localhost http://localhost:4200.evil.com
http://evil.com:4200 file:// chrome-extension://abc ftp://localhost:4200 http://localhost:4200@a.b http://[::1]:4200
http://127.0.0.9:4200"""


def test_another_name_is_refused():
    for host in (None, "", "localhost, a.b", *OTHER_NAMES.split()):
        assert "by the names 127.0.0.1 and localhost alone" in refusal(host), host


def test_a_page_of_another_site_or_port_is_refused():
    for origin in ("", *OTHER_PAGES.split()):
        assert "no page of another site or port" in refusal("localhost:4200", origin), origin


def test_two_hosts_or_one_foreign_origin_of_two_are_refused():
    guard = OwnPagesAndUser(app)
    for name, values in (
        (b"host", [b"localhost", b"evil.com"]),
        (b"origin", [b"http://localhost", b"http://evil.com"]),
    ):
        headers = [(b"host", b"localhost")] * (name != b"host") + [(name, value) for value in values]
        assert guard.refusal({"type": "http", "headers": headers, "server": ("127.0.0.1", 80)})


def test_a_server_at_another_address_knows_that_alone():
    for listening, host, own in (("::1", "[::1]:1", True), ("::1", "localhost:1", True), ("::1", "127.0.0.1:1", False)):
        scope = {"type": "http", "headers": [(b"host", host.encode())], "server": (listening, 1)}
        assert (OwnPagesAndUser(app).refusal(scope) == "") == own
    scope = {"type": "http", "headers": [(b"host", b"localhost:1")], "server": ("127.0.0.2", 1)}
    assert "by the names 127.0.0.2 alone" in OwnPagesAndUser(app).refusal(scope)


def test_a_trusted_page_is_let_in_with_its_name_and_no_wildcard_is():
    assert refusal("bench.lab", "https://bench.lab", origins=["https://bench.lab/"]) == ""
    assert refusal("evil.com", "https://bench.lab", origins=["https://bench.lab"])
    assert refusal("localhost:1", "http://evil.com", origins=["*"])


@contextmanager
def connected(family: int, address: str) -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.socket(family) as listening:
        listening.bind((address, 0))
        listening.listen()
        with socket.create_connection(listening.getsockname()[:2]) as client:
            server, _ = listening.accept()
            with server:
                yield client, server


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_the_owner_of_a_connection_is_told_while_it_is_open(family: int, address: str):
    with connected(family, address) as (client, server):
        ends = server.getpeername()[:2], server.getsockname()[:2]
        assert owner(*ends) == (os.getuid() if sys.platform == "linux" else None)
        client.shutdown(socket.SHUT_WR)  # it has no more to send, and reads on
        assert owner(*ends) == (os.getuid() if sys.platform == "linux" else None)
        client.close()  # what was sent is still to be read, and nobody answers for it
        assert owner(*ends) == (NOBODY if sys.platform == "linux" else None)


@pytest.mark.parametrize("told", [None, NOBODY])
def test_where_the_system_does_not_tell_everybody_is_let_in(told: int | None, monkeypatch: pytest.MonkeyPatch):
    """Nobody at all would be, where a kernel says of each connection that there is none."""
    assert own_users() == ((os.getuid(), 0) if sys.platform == "linux" else None)
    monkeypatch.setattr("flows.serve.server_access.owner", lambda client, server: told)
    assert own_users() is None


def test_another_user_is_refused():
    """As root a real one; otherwise a server that was started by somebody else."""
    me, another = os.getuid(), 65534
    with as_user(another if me == 0 else me), connected(socket.AF_INET, "127.0.0.1") as (_, server):
        asking, others = (another, (me, 0)) if me == 0 else (me, (another,))
        ends = {"client": server.getpeername(), "server": server.getsockname()}
        scope = {"type": "http", "headers": [(b"host", b"localhost")], **ends}
        assert OwnPagesAndUser(app, users=[asking]).refusal(scope) == ""
        assert bool(OwnPagesAndUser(app, users=others).refusal(scope)) == (sys.platform == "linux")
        assert OwnPagesAndUser(app).refusal(scope) == ""  # with a password whoever asks


def test_a_connection_of_nobody_is_refused():
    """Its other end is closed already: whoever asked by it may have been any user."""
    with connected(socket.AF_INET, "127.0.0.1") as (client, server):
        ends = {"client": server.getpeername(), "server": server.getsockname()}
        scope = {"type": "http", "headers": [(b"host", b"localhost")], **ends}
        asked = OwnPagesAndUser(app, users=[os.getuid()])
        assert asked.refusal(scope) == ""
        client.close()
        assert bool(asked.refusal(scope)) == (sys.platform == "linux")
