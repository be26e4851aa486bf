"""What a service answers, told apart from what Prefect's and MLflow's own clients make of it."""

import base64
import json
import os
import time
import urllib.error
import urllib.request
from typing import Any


def ask(url: str, body: dict[str, Any], attempts: int = 20) -> Any:
    """What a service answers to a POST; asked again while it says 503, as Prefect does when its database is locked."""
    headers = {"Content-Type": "application/json"}
    if password := os.environ.get("PREFECT_API_AUTH_STRING"):
        headers["Authorization"] = f"Basic {base64.b64encode(password.encode()).decode()}"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        if error.code != 503 or attempts == 1:
            raise
    time.sleep(0.5)
    return ask(url, body, attempts - 1)
