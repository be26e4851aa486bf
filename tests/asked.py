"""Plain HTTP requests to Prefect and MLflow, without their own clients."""

import base64
import json
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any


def auth_of(home: Path) -> str:
    """Return user and password of the Prefect server of `ablate up`."""
    return f"ablate:{(home / '.access' / 'password').read_text()}"


def ask(url: str, body: dict[str, Any] | None, auth: str = "", attempts: int = 20) -> Any:
    """Return a service's JSON answer to a POST, or to a GET if there is no body.

    Retries after 503, which Prefect answers while its database is locked.
    """
    headers = {"Content-Type": "application/json"}
    if auth:
        headers["Authorization"] = f"Basic {base64.b64encode(auth.encode()).decode()}"
    request = urllib.request.Request(url, None if body is None else json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        if error.code != 503 or attempts == 1:
            raise
    time.sleep(0.5)
    return ask(url, body, auth, attempts - 1)
