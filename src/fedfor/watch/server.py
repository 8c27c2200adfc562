"""Serves the live page: two addresses, no files, and only to those who may ask."""

import ipaddress
import os
import socket
import socketserver
import threading
import time
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ..errors import FedforError
from .live import LivePage

PORT = 8008
"""Taken if it is free and no other was asked for, so that a bookmark goes on working."""
SLOWEST = 10.0
"""Seconds that a client may let us wait for the next bytes."""
LONGEST = 30.0
"""Seconds that a connection may last in all."""
MOST = 64
"""Connections at a time."""

TEXT = "text/plain"
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
        "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class WatchServer(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = os.name != "nt"  # there it would let another program take the port too

    def __init__(self, page: LivePage, host: str, port: int) -> None:
        self.page, self.asked_host = page, host
        self.names = names_of(host)
        self._open: dict[socket.socket, float] = {}
        self._open_lock = threading.Lock()
        self.address_family, address = _address(host, port)
        super().__init__(address, Handler)

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)  # HTTPServer's would ask the DNS for our name
        self.server_name, self.server_port = self.asked_host, self.server_address[1]

    @property
    def url(self) -> str:
        host = str(self.server_address[0])
        if ipaddress.ip_address(host).is_unspecified:
            host = socket.gethostname()
        return f"http://{f'[{host}]' if ':' in host else host}:{self.server_address[1]}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._open_lock:
            full = len(self._open) >= MOST
            if not full:
                self._open[request] = time.monotonic()
        if full:
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._open_lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Twice a second: end the connections of those who only keep them open."""
        with self._open_lock:
            now = time.monotonic()
            for connection, since in self._open.items():
                if now - since > LONGEST:
                    _hang_up(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that breaks off is its own affair."""


class Handler(BaseHTTPRequestHandler):
    server: WatchServer
    timeout = SLOWEST
    server_version, sys_version = "fedfor", ""
    default_request_version = "HTTP/1.0"  # so that what cannot be understood gets headers too

    def do_GET(self) -> None:
        self._answer(*self._found())

    def do_HEAD(self) -> None:
        self.do_GET()

    def _found(self) -> tuple[HTTPStatus, str, str]:
        if not self._is_ours():
            return HTTPStatus.FORBIDDEN, "this page is not served under that name\n", TEXT
        path, _, query = self.path.partition("?")
        try:
            if path == "/":
                return HTTPStatus.OK, self.server.page.page(), "text/html"
            if path == "/data.json":
                data = self.server.page.data(parse_qs(query).get("seen", [""])[0])
                status = HTTPStatus.NO_CONTENT if data is None else HTTPStatus.OK
                return status, data or "", "application/json"
        except Exception as error:  # a fault of ours, which the next round may mend
            words = f"the page cannot be made ({type(error).__name__})\n"
            return HTTPStatus.INTERNAL_SERVER_ERROR, words, TEXT
        return HTTPStatus.NOT_FOUND, "there is only / and /data.json here\n", TEXT

    def _is_ours(self) -> bool:
        """Whether it was asked for by a name of ours; else a page elsewhere could read us by
        letting its own name lead here."""
        named = self.headers.get_all("Host") or []
        return len(named) == 1 and is_ours(named[0], self.server.names)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the library refuses: broken requests, too long ones, other methods."""
        status = HTTPStatus(code)
        if status is HTTPStatus.NOT_IMPLEMENTED:
            status = HTTPStatus.METHOD_NOT_ALLOWED
        self.close_connection = True
        self._answer(status, f"{status.phrase.lower()}\n", TEXT)

    def _answer(self, status: HTTPStatus, text: str, kind: str) -> None:
        content = text.encode(errors="replace")  # a folder can have a name that is no text
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        if status is not HTTPStatus.NO_CONTENT:
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing: the terminal is for how the run stands."""


def serve(page: LivePage, host: str, port: int | None) -> WatchServer:
    """A server at this address, or at a free port where none was asked for."""
    try:
        if port is not None:
            return WatchServer(page, host, port)
        try:
            return WatchServer(page, host, PORT)
        except OSError:
            return WatchServer(page, host, 0)
    except (OSError, OverflowError) as error:
        where = f"{host}, port {PORT if port is None else port}"
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise FedforError(
            f"cannot serve on {where} ({why}); choose another with --port or --host"
        ) from error


def names_of(host: str) -> frozenset[str]:
    """The names under which somebody may ask for us."""
    names = {host.lower(), "localhost", "127.0.0.1", "::1"}
    if not is_loopback(host):
        own = socket.gethostname().lower()
        names |= {own, own.partition(".")[0], f"{own.partition('.')[0]}.local"}
        names.add("*")  # any address in digits: no name leads to it, so nobody else's can
    return frozenset(names)


def is_ours(named: str, names: frozenset[str]) -> bool:
    try:
        host = urlsplit(f"//{named}").hostname or ""
    except ValueError:
        return False
    host = host.rstrip(".")
    if host in names:
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return "*" in names


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _address(host: str, port: int) -> tuple[socket.AddressFamily, Any]:
    family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    return family, address


def _hang_up(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
