"""Who may speak to the servers that listen on loopback: their own pages, and processes of the user who started them.

A browser says which page a request comes from (`Origin`) and by which name it asked (`Host`). A page of another site
has another origin, and one whose name was made to mean 127.0.0.1 (DNS rebinding) asks by another name. A loopback port
is open to every user of the machine, too, so Linux is asked whose process holds the other end of a connection.
"""

import os
import socket
import struct
import sys
from collections.abc import Collection, Iterable
from typing import TypeAlias
from urllib.parse import SplitResult, urlsplit

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from flows.exposure import loopback

Address: TypeAlias = tuple[str, int]
NOBODY = -1  # of a connection whose other end is closed already, or not on this machine
ESTABLISHED = 1
PORTS = {"http": 80, "https": 443}


class OwnPagesAndUser:
    """An ASGI app that answers 403 to everybody else. `origins` are trusted besides; `users` None: whoever asks."""

    def __init__(self, app: ASGIApp, origins: Iterable[str] = (), users: Collection[int] | None = None):
        self.app, self.users = app, users
        self.origins = {origin.strip().rstrip("/").lower() for origin in origins} - {"", "*"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or not (reason := self.refusal(scope)):
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await PlainTextResponse(f"{reason}\n", 403)(scope, receive, send)
        else:
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": reason})

    def refusal(self, scope: Scope) -> str:
        """Why a request is refused, or nothing."""
        hosts, origins = (_values(scope, name) for name in (b"host", b"origin"))
        if len(hosts) != 1 or not self._is_own_name(hosts[0]):
            return (
                "this server is asked for by the name of this machine's loopback alone, such as 127.0.0.1 or localhost"
            )
        if not all(self._is_own_page(origin, hosts[0]) for origin in origins):
            return "this server answers no page of another site or port"
        if self.users is not None and owner(scope["client"], scope["server"]) not in (*self.users, None):
            return "this server answers only the user who started it; docs/security.md says how others are let in"
        return ""

    def _is_own_name(self, host: str) -> bool:
        name = _split(f"http://{host}").hostname or ""
        return loopback(name) or name in {_split(origin).hostname for origin in self.origins}

    def _is_own_page(self, origin: str, host: str) -> bool:
        page, asked = _split(origin), _split(f"http://{host}")
        own = page.scheme in PORTS and loopback(page.hostname or "") and _port(page) == _port(asked)
        return own or origin.lower() in self.origins


def owner(client: Address, server: Address) -> int | None:
    """The user whose process holds the client's end of a TCP connection over loopback, or NOBODY.

    None where the system does not tell: it is not Linux, or its kernel was built without sock_diag.
    """
    if sys.platform != "linux":
        return None
    family, others = (socket.AF_INET6, "=HH16s16s") if ":" in client[0] else (socket.AF_INET, "=HH4s12x4s12x")
    ends = struct.pack(
        others,
        *(socket.htons(port) for _, port in (client, server)),
        *(socket.inet_pton(family, address.partition("%")[0]) for address, _ in (client, server)),
    )
    asked = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF) + ends + b"\0" * 4 + b"\xff" * 8
    sock_diag_by_family, request, netlink_sock_diag = 20, 1, 4
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, netlink_sock_diag) as kernel:
            kernel.send(struct.pack("=IHHII", 16 + len(asked), sock_diag_by_family, request, 0, 0) + asked)
            told = kernel.recv(4096)
    except OSError:
        return None
    _, kind, *_ = struct.unpack_from("=IHHII", told)
    if kind != sock_diag_by_family or told[17] != ESTABLISHED:
        return NOBODY
    return int(struct.unpack_from("=I", told, 80)[0])


def own_users() -> tuple[int, int]:
    """Whom a server answers without a password: who started it, and root, who may do everything anyway."""
    return os.getuid(), 0


def _values(scope: Scope, wanted: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name == wanted]


def _split(url: str) -> SplitResult:
    """The parts of an address; none of one that cannot be read."""
    try:
        found = urlsplit(url)
        _ = found.port  # raises where it is no number
    except ValueError:
        return urlsplit("")
    return found


def _port(url: SplitResult) -> int | None:
    return url.port or PORTS.get(url.scheme)
