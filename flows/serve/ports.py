"""Which ports `ablate up` serves at, whether they are free, and whether a service answers there."""

import errno
import os
import socket
import urllib.error
import urllib.request

from contrastive.errors import UserError

LOOPBACK = "127.0.0.1"
PORTS = {"prefect": ("ABLATE_PREFECT_PORT", "4200"), "mlflow": ("ABLATE_MLFLOW_PORT", "5000")}


def port(service: str) -> int:
    variable, usual = PORTS[service]
    given = os.environ.get(variable) or usual
    if not given.isdecimal() or not 0 < int(given) < 65536:
        raise UserError(f"{variable} is `{given}`; give a port between 1 and 65535")
    return int(given)


def port_in_use(number: int, host: str = LOOPBACK) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, number))
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
                raise UserError(f"{host} is no address of this machine; see `hostname -I`") from None
            return True
    return False


def url(host: str, number: int) -> str:
    """The address at which this machine reaches a service that listens on a host."""
    here = {"0.0.0.0": LOOPBACK, "::": "::1"}.get(host, host)
    return f"http://[{here}]:{number}" if ":" in here else f"http://{here}:{number}"


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return response.status == 200
    except (urllib.error.URLError, OSError):
        return False


def free_port(service: str, host: str = LOOPBACK) -> int:
    number = port(service)
    if port_in_use(number, host):
        raise UserError(
            f"port {number} on {host} is in use (an `ablate up` of another home?); stop what listens there, "
            f"or choose another port: {PORTS[service][0]}={number + 1} ablate up"
        )
    return number


def any_free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])
