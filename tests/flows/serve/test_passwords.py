import pytest

from contrastive.errors import UserError
from flows.serve import passwords
from flows.serve.up import up

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
            passwords.demand_passwords(
                "0.0.0.0", {name: GIVEN[name] for name in GIVEN if name != missing} | weak, mlflow=True
            )


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
        up(tmp_path, "0.0.0.0")
    assert list(tmp_path.iterdir()) == []
