"""A server on this machine for the downloads of the tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass
class Server:
    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    knows_ranges: bool = True
    breaks_after: int | None = None
    """How many bytes of an answer are sent before the connection breaks."""
    length: str = "told"
    """Or untold, so that the end of the connection is that of the file; or chunked."""
    asked: list[str | None] = field(default_factory=list)
    """The ranges that were asked for."""


@contextmanager
def serving() -> Iterator[Server]:
    server = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self, server)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        server.address = f"http://127.0.0.1:{http.server_address[1]}"
        thread = Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()


def answer(request: BaseHTTPRequestHandler, server: Server) -> None:
    asked = request.headers.get("Range")
    server.asked.append(asked)
    body = server.files.get(request.path.strip("/"))
    if body is None:
        request.send_error(404)
        return
    start = 0
    if asked and server.knows_ranges:
        start = int(asked.removeprefix("bytes=").removesuffix("-"))
        if start >= len(body):
            request.send_response(416)
            request.send_header("Content-Range", f"bytes */{len(body)}")
            request.end_headers()
            return
        request.send_response(206)
        request.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
    else:
        request.send_response(200)
    if server.length == "told":
        request.send_header("Content-Length", str(len(body) - start))
    if server.length == "chunked":
        request.send_header("Transfer-Encoding", "chunked")
    request.end_headers()
    if server.length == "chunked":
        request.wfile.write(b"%x\r\n" % (len(body) - start))
        body += b"\r\n0\r\n\r\n"
    request.wfile.write(body[start:][: server.breaks_after])
