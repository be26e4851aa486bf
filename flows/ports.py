"""The ports of `ablate up` on loopback: which they are, whether they are taken, whether a service answers."""

import json
import os
import socket
import time
import urllib.error
import urllib.request
from typing import Any

from contrastive.errors import UserError

PORTS = {"prefect": ("ABLATE_PREFECT_PORT", "4200"), "mlflow": ("ABLATE_MLFLOW_PORT", "5000")}


def port(service: str) -> int:
    variable, usual = PORTS[service]
    given = os.environ.get(variable) or usual
    if not given.isdecimal() or not 0 < int(given) < 65536:
        raise UserError(f"{variable} is `{given}`; give a port between 1 and 65535")
    return int(given)


def port_in_use(number: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", number))
        except OSError:
            return True
    return False


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return response.status == 200
    except (urllib.error.URLError, OSError):
        return False


def ask(url: str, body: dict[str, Any], attempts: int = 20) -> Any:
    """What a service answers to a POST; asked again while it says 503, as Prefect does when its database is locked."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        if error.code != 503 or attempts == 1:
            raise
    time.sleep(0.5)
    return ask(url, body, attempts - 1)


def free_port(service: str) -> int:
    number = port(service)
    if port_in_use(number):
        raise UserError(
            f"port {number} on 127.0.0.1 is in use (another `ablate up`?); stop what listens there, "
            f"or choose another port: {PORTS[service][0]}={number + 1} ablate up"
        )
    return number
