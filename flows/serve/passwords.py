"""What is demanded before `ablate up` listens where other machines reach it: a password for each service."""

import configparser
import ipaddress
from collections.abc import Mapping
from pathlib import Path

from contrastive.errors import UserError

PREFECT = "PREFECT_SERVER_API_AUTH_STRING"
MLFLOW = ("MLFLOW_AUTH_ADMIN_PASSWORD", "MLFLOW_FLASK_SERVER_SECRET_KEY")
SHORTEST = 12  # characters of a password; MLflow asks for as many


def loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, which may mean anything
        return False


def demand_passwords(host: str, environment: Mapping[str, str], *, mlflow: bool) -> None:
    """Refuse an address that other machines reach, unless each service that listens there has its password."""
    if loopback(host):
        return
    weak = [name for name in (PREFECT, *(MLFLOW if mlflow else ())) if len(password(name, environment)) < SHORTEST]
    if weak:
        raise UserError(
            f"other machines can reach {host}: set {', '.join(weak)} to a password of {SHORTEST} characters or more "
            f"({PREFECT} as user:password) before anything listens there; see docs/reference/security.md"
        )


def password(name: str, environment: Mapping[str, str]) -> str:
    if name == PREFECT:
        return environment.get(name, "").partition(":")[2]
    if name == MLFLOW[0] and name not in environment:
        return _of_file(environment)
    return environment.get(name, "")


def _of_file(environment: Mapping[str, str]) -> str:
    """MLflow's admin password may stand in its own configuration instead."""
    config = configparser.ConfigParser(interpolation=None)
    config.read(environment.get("MLFLOW_AUTH_CONFIG_PATH", ""))
    return config.get("mlflow", "admin_password", fallback="")


def mlflow_users(home: Path) -> Path:
    """The configuration of MLflow's own app for passwords, with its users in the home; nobody reads without one."""
    path = home / ".mlflow" / "auth.ini"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    database = str(path.with_name("users.db")).replace("%", "%%")
    settings = {
        "default_permission": "READ",
        "database_uri": f"sqlite:///{database}",
        "admin_username": "admin",
        "auth_cache_ttl_seconds": "60",  # of one process, which hears of every change; each check costs half a second
    }
    text = "".join(f"{name} = {value}\n" for name, value in settings.items())
    path.write_text(f"[mlflow]\n{text}", encoding="utf-8")
    return path
