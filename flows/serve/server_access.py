"""Who may speak to the servers that listen on loopback: their own pages, and processes of the user who started them.

A browser says which page a request comes from (`Origin`) and by which name it asked (`Host`). A page of another site
has another origin, and one whose name was made to mean 127.0.0.1 (DNS rebinding) asks by another name. A loopback port
is open to every user of the machine, too, so Linux is asked whose process holds the other end of a connection.
"""

import os
import re
import socket
import struct
import sys
from collections.abc import Collection, Iterable
from typing import TypeAlias

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

Address: TypeAlias = tuple[str, int]
NOBODY = -1  # of a connection whose other end is closed already, or not on this machine
OPEN = (1, 4, 5)  # established, or with nothing more to send; as the kernel counts
PORTS = {"http": "80", "https": "443"}
HOST = re.compile(r"(\[[0-9a-f:]+\]|[0-9a-z.-]+)(?::([0-9]{1,5}))?", re.IGNORECASE)
ORIGIN = re.compile(rf"(https?)://{HOST.pattern}", re.IGNORECASE)


class OwnPagesAndUser:
    """An ASGI app that answers 403 to everybody else. `origins` are trusted besides; `users` None: whoever asks."""

    def __init__(self, app: ASGIApp, origins: Iterable[str] = (), users: Collection[int] | None = None):
        self.app, self.users = app, users
        self.origins = {origin.strip().rstrip("/").lower() for origin in origins} - {"", "*"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
        elif not (reason := self.refusal(scope)):
            await self.app(scope, receive, unframed(send))
        elif scope["type"] == "http":
            await PlainTextResponse(f"{reason}\n", 403)(scope, receive, send)
        else:
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": reason})

    def refusal(self, scope: Scope) -> str:
        """Why a request is refused, or nothing."""
        hosts, origins = (_header_values(scope, name) for name in (b"host", b"origin"))
        own = own_names(scope["server"][0])
        if len(hosts) != 1 or not self._is_own_name(hosts[0], own):
            return f"this server is asked for by the names {' and '.join(sorted(own))} alone"
        if not all(self._is_own_page(origin, hosts[0], own) for origin in origins):
            return "this server answers no page of another site or port"
        if self.users is not None and owner(scope["client"], scope["server"]) not in (*self.users, None):
            return "this server answers only the user who started it; see docs/reference/security.md"
        return ""

    def _is_own_name(self, host: str, own: set[str]) -> bool:
        named = HOST.fullmatch(host)
        trusted = {origin[2].lower() for text in self.origins if (origin := ORIGIN.fullmatch(text))}
        return named is not None and named[1].lower() in own | trusted

    def _is_own_page(self, origin: str, host: str, own: set[str]) -> bool:
        page, asked = ORIGIN.fullmatch(origin), HOST.fullmatch(host)
        if origin.lower() in self.origins or page is None or asked is None:
            return origin.lower() in self.origins
        usual = PORTS[page[1].lower()]
        return page[2].lower() in own and (page[3] or usual) == (asked[2] or usual)


def own_names(listening: str) -> set[str]:
    """The address at which a server listens, and `localhost`, where that may mean it."""
    name = f"[{listening}]" if ":" in listening else listening
    return {name, "localhost"} if listening in ("127.0.0.1", "::1") else {name}


def unframed(send: Send) -> Send:
    """No other page may show this one in a frame, where a click would be led astray."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).setdefault("x-frame-options", "SAMEORIGIN")
        await send(message)

    return sending


def owner(client: Address, server: Address) -> int | None:
    """The user whose process holds the client's end of a TCP connection over loopback, or NOBODY.

    None where the system does not tell: it is not Linux, or its kernel was built without sock_diag.
    """
    if sys.platform != "linux":
        return None
    sock_diag_by_family, request, netlink_sock_diag = 20, 1, 4
    asked = question(client, server)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, netlink_sock_diag) as kernel:
            kernel.send(struct.pack("=IHHII", 16 + len(asked), sock_diag_by_family, request, 0, 0) + asked)
            answer = kernel.recv(4096)
    except OSError:
        return None
    _, kind, *_ = struct.unpack_from("=IHHII", answer)
    if kind != sock_diag_by_family:
        return NOBODY
    user, file = struct.unpack_from("=II", answer, 80)
    return int(user) if answer[17] in OPEN and file else NOBODY  # no file: its process has closed it


def question(client: Address, server: Address) -> bytes:
    """What Linux is asked, as its `inet_diag_req_v2` has it: about the one connection with these ends."""
    family, ends = (socket.AF_INET6, "=HH16s16s") if ":" in client[0] else (socket.AF_INET, "=HH4s12x4s12x")
    ports = (socket.htons(port) for _, port in (client, server))
    addresses = (socket.inet_pton(family, address.partition("%")[0]) for address, _ in (client, server))
    any_state, any_interface, any_cookie = 0xFFFFFFFF, b"\0" * 4, b"\xff" * 8
    head = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 0, 0, any_state)
    return head + struct.pack(ends, *ports, *addresses) + any_interface + any_cookie


def own_users() -> tuple[int, int] | None:
    """Whom a server answers without a password: who started it, and root, who may do everything anyway.

    None, which is everybody, where the system does not even tell whose a connection of our own is: a kernel without
    `tcp_diag` says of each that there is none.
    """
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_connection(listening.getsockname()) as ours:
        is_told = owner(ours.getsockname(), ours.getpeername()) == os.getuid()
    return (os.getuid(), 0) if is_told else None


def _header_values(scope: Scope, header: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name == header]
