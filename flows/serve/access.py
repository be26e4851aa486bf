"""Password of the servers, created by the first `ablate up` of a home, and the settings that pass it on.

The authentication of Prefect and MLflow keeps out other users of the machine, pages of other sites and DNS rebinding.
"""

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flows.serve.servers import is_up

USER = "ablate"
SETTINGS = "prefect.toml"  # Prefect reads it in the working directory
WRITTEN_BY = "# written by `ablate up`, and removed when it stops; the home is "
AUTH_INI = """[mlflow]
default_permission = READ
database_uri = sqlite:///{users}
admin_username = {user}
auth_cache_ttl_seconds = 60
"""  # safe with one server process; without the cache each request takes half a second


def folder(home: Path) -> Path:
    path = home / ".access"
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path


def password(home: Path) -> str:
    """Read the home's password, or create one. A lost password also resets MLflow's users, who have the old one."""
    path = folder(home) / "password"
    if not path.exists():
        (path.parent / "users.db").unlink(missing_ok=True)
        write_private(path, secrets.token_urlsafe(18))
    return path.read_text(encoding="ascii").strip()


def server_environment(home: Path, host: str, environment: dict[str, str]) -> dict[str, str]:
    """Return the environment of both servers and their clients; variables set by the user take precedence."""
    made, config = password(home), folder(home) / "mlflow.ini"
    users = str(config.with_name("users.db")).replace("%", "%%")
    write_private(config, AUTH_INI.format(users=users, user=USER))
    names = {host, "localhost", "127.0.0.1"}
    usual = {
        "PREFECT_SERVER_API_AUTH_STRING": f"{USER}:{made}",
        "MLFLOW_AUTH_CONFIG_PATH": str(config),
        "MLFLOW_AUTH_ADMIN_PASSWORD": made,
        "MLFLOW_FLASK_SERVER_SECRET_KEY": secrets.token_hex(16),
        # MLflow's default list accepts 10.evil.com as an address of a private network
        "MLFLOW_SERVER_ALLOWED_HOSTS": ",".join(f"{name},{name}:*" for name in sorted(names)),
    }
    variables = usual | environment
    return variables | {"PREFECT_API_AUTH_STRING": variables["PREFECT_SERVER_API_AUTH_STRING"]}


@contextmanager
def client_settings(home: Path, api: str, auth: str) -> Iterator[bool]:
    """Let `prefect` find the server from this folder; yield False if the user has a settings file here."""
    path = Path(SETTINGS)
    forget_stopped_server()
    if path.exists():
        yield False
        return
    write_private(path, f'{WRITTEN_BY}{home}\n[api]\nurl = "{api}"\nauth_string = {json.dumps(auth)}\n')
    try:
        yield True
    finally:
        path.unlink(missing_ok=True)


def forget_stopped_server() -> None:
    """Remove the settings file of an `ablate up` that was killed."""
    path = Path(SETTINGS)
    if not path.exists():
        return
    first, _, _ = path.read_text(encoding="utf-8", errors="replace").partition("\n")
    if first.startswith(WRITTEN_BY) and not is_up(Path(first.removeprefix(WRITTEN_BY))):
        path.unlink(missing_ok=True)


def write_private(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
