"""The live page over real HTTP: to whom it is served, and that there is nothing else."""

import json
import math
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

import pytest

from fedfor.errors import FedforError
from fedfor.experiments.folder import RunFolder
from fedfor.report.loading import LoadedRun
from fedfor.watch import follow, server
from fedfor.watch.follow import Follower
from fedfor.watch.live import LivePage
from fedfor.watch.server import Handler, WatchServer, is_loopback, is_ours, names_of, serve

from ..processes import HANG, wait_until
from ..report.made import made_comparison, made_record, made_run

pytestmark = pytest.mark.processes


@contextmanager
def served(path: Path, host: str = "127.0.0.1", **build: Any) -> Iterator[WatchServer]:
    started = serve(LivePage(Follower(path), **build), host, 0)
    threading.Thread(target=started.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield started
    finally:
        started.shutdown()
        started.server_close()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return made_run(tmp_path / "r", rounds=3, planned=5, done=False)


@pytest.fixture
def at(run: Path) -> Iterator[WatchServer]:
    with served(run) as started:
        yield started


def ask(
    at: WatchServer, path: str, method: str = "GET", host: str | None = None
) -> tuple[HTTPResponse, str]:
    connection = HTTPConnection("127.0.0.1", at.server_port, timeout=HANG)
    with closing(connection):
        connection.request(method, path, headers={"Host": host} if host else {})
        answer = connection.getresponse()
        return answer, answer.read().decode()


def connected(at: WatchServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", at.server_port), timeout=HANG)


def raw(at: WatchServer, request: bytes) -> bytes:
    """All that is answered to these bytes."""
    with connected(at) as connection:
        connection.sendall(request)
        found = b""
        while chunk := connection.recv(65536):
            found += chunk
    return found


def test_the_page_and_its_data_are_there(at: WatchServer) -> None:
    answer, page = ask(at, "/")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert page.startswith("<!doctype html>")
    answer, text = ask(at, "/data.json")
    assert (answer.status, answer.headers["Content-Type"]) == (
        200,
        "application/json; charset=utf-8",
    )
    live = json.loads(text)["live"]
    assert live["version"] in page
    assert (live["state"], live["rounds_done"], live["rounds_planned"]) == ("running", 3, 5)
    assert live["refresh"] == 1.0
    assert set(live["runs"][0]) >= {
        "name", "seed", "point", "round", "of", "state", "seconds_a_round", "left", "failed",
        "last_failure", "accuracy",
    }  # fmt: skip


def test_data_come_once_and_again_when_there_is_more(at: WatchServer, run: Path) -> None:
    def version(text: str) -> str:
        return str(json.loads(text)["live"]["version"])

    seen = version(ask(at, "/data.json")[1])
    answer, text = ask(at, f"/data.json?seen={seen}")
    assert (answer.status, text) == (204, "")
    RunFolder(run).append(made_record(4, 0.8))

    def news() -> str:
        return ask(at, f"/data.json?seen={seen}")[1]

    data = json.loads(wait_until(news, "there is news"))
    assert data["live"]["rounds_done"] == 4
    assert ask(at, "/data.json?seen=of-another-server.7.abc")[0].status == 200


def test_of_many_runs_how_they_stand_comes_before_their_curves(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data that take long to make are made seldom; what is cheap is told at once."""
    monkeypatch.setattr(follow, "LOOK_EVERY", 0.0)
    built = []

    def build(runs: Sequence[LoadedRun], title: str) -> dict[str, Any]:
        built.append([len(r.records) for r in runs])
        return {"title": title, "runs": built[-1]}

    page = LivePage(Follower(run), build, lambda payload: "")
    first = json.loads(page.data() or "")
    monkeypatch.setattr(page, "_next", math.inf)
    RunFolder(run).append(made_record(4, 0.8))
    second = json.loads(page.data(first["live"]["version"]) or "")
    assert second.keys() == {"live"}
    assert second["live"]["rounds_done"] == 4
    assert page.data(second["live"]["version"]) is None
    monkeypatch.setattr(page, "_next", 0.0)
    third = json.loads(page.data(second["live"]["version"]) or "")
    assert third["runs"] == [4]
    assert page.data(third["live"]["version"]) is None
    assert built == [[3], [4]]


def test_nothing_is_made_while_nobody_asks_or_nothing_is_new(run: Path) -> None:
    built = []
    with served(run, build=lambda runs, title: built.append(title) or {}) as at:
        assert built == []
        for _ in range(3):
            ask(at, "/data.json")
        assert built == ["r"]


PATHS = [
    "/../../etc/passwd",
    "/..%2f..%2fetc%2fpasswd",
    "/%2e%2e/%2e%2e/etc/passwd",
    "/rounds.jsonl",
    "/config.toml",
    "/data.json/../../../etc/passwd",
    "/data.json%00",
    "/DATA.JSON",
    "//etc/passwd",
    "/etc/passwd?/data.json",
    "/\\..\\..\\windows\\win.ini",
    "/" + "a" * 5000,
    "http://127.0.0.1/data.json",
    "http://example.com/",
    "file:///etc/passwd",
    "data.json",
    "*",
]


@pytest.mark.parametrize("path", PATHS)
def test_there_is_no_other_path(at: WatchServer, path: str) -> None:
    found = raw(at, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    assert found.startswith(b"HTTP/1.0 404 ")
    assert found.endswith(b"\r\n\r\nthere is only / and /data.json here\n")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"414"),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n", b"431"),
        (b"GET / HTTP/1.1\r\nHost: " + b"a" * 70_000 + b"\r\n\r\n", b"431"),
        (b"GET / HTTP/9.9\r\nHost: 127.0.0.1\r\n\r\n", b"505"),
        (b"GET / / HTTP/1.1\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x00\xff\x01\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n\r\n", b"403"),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n", b"403"),
        (b"GET /data.json?seen=%ff%00&seen HTTP/1.1\r\nHost: localhost\r\n\r\n", b"200"),
    ],
)
def test_broken_and_odd_requests_are_answered(
    at: WatchServer, request_: bytes, status: bytes
) -> None:
    found = raw(at, request_)
    assert status in found.split(b"\r\n")[0]
    assert b"passwd" not in found
    assert ask(at, "/data.json")[0].status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "X"])
def test_only_reading_is_allowed(at: WatchServer, method: str) -> None:
    answer, _ = ask(at, "/", method)
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_a_head_has_no_body(at: WatchServer) -> None:
    found = raw(at, b"HEAD / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert found.startswith(b"HTTP/1.0 200 ")
    assert found.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("path", ["/", "/data.json", "/nowhere"])
def test_every_answer_tells_browsers_what_they_may_do(at: WatchServer, path: str) -> None:
    headers = ask(at, path)[0].headers
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "connect-src 'self'" in headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "Access-Control-Allow-Origin" not in headers
    assert "Python" not in headers["Server"]


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8008",
        "127.0.0.1.evil.example",
        "192.168.1.7",
        "[::2]",
        "]",
        "",
    ],
)
def test_another_name_that_leads_here_is_refused(at: WatchServer, host: str) -> None:
    request = f"GET /data.json HTTP/1.1\r\nHost: {host}\r\n\r\n"
    found = raw(at, request.encode())
    assert found.startswith(b"HTTP/1.0 403 ")
    assert b"live" not in found


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9999", "127.0.0.1:1", "[::1]:8008"])
def test_names_of_this_machine_are_good_through_any_tunnel(at: WatchServer, host: str) -> None:
    assert ask(at, "/data.json", host=host)[0].status == 200


def test_it_is_on_loopback_alone_unless_told_otherwise(at: WatchServer) -> None:
    assert at.socket.getsockname()[0] == "127.0.0.1"
    assert at.url == f"http://127.0.0.1:{at.server_port}/"
    addresses = {a[4][0] for a in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in addresses - {"127.0.0.1"}:
        with pytest.raises(OSError):  # noqa: PT011 (refused, or no way there)
            socket.create_connection((address, at.server_port), timeout=HANG)


def test_told_otherwise_it_answers_to_addresses_and_its_own_name_but_to_no_other() -> None:
    names = names_of("0.0.0.0")
    own = socket.gethostname()
    for good in ("10.0.0.7:8008", "[fe80::1]:8008", "localhost", own, f"{own.upper()}:8008"):
        assert is_ours(good, names)
    for bad in ("evil.example", "10.0.0.7.evil.example", "", "[", "10.0.0"):
        assert not is_ours(bad, names)
    assert is_ours("box.example.org", names_of("box.example.org"))
    assert is_loopback("127.0.0.1")
    assert is_loopback("::1")
    assert is_loopback("localhost")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("box.example.org")


def test_ipv6_works_where_there_is_any(run: Path) -> None:
    with closing(socket.socket(socket.AF_INET6)) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            pytest.skip("no IPv6 on this machine")
    with served(run, "::1") as at:
        assert at.url == f"http://[::1]:{at.server_port}/"
        with closing(HTTPConnection("::1", at.server_port, timeout=HANG)) as connection:
            connection.request("GET", "/data.json")
            assert connection.getresponse().status == 200


def test_a_port_that_is_taken_is_told_and_the_usual_one_is_not_insisted_on(
    run: Path, at: WatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = LivePage(Follower(run))
    with pytest.raises(FedforError, match=f"cannot serve on 127.0.0.1, port {at.server_port} "):
        serve(page, "127.0.0.1", at.server_port)
    monkeypatch.setattr(server, "PORT", at.server_port)
    other = serve(page, "127.0.0.1", None)
    assert other.server_port != at.server_port
    other.server_close()
    with pytest.raises(FedforError, match=r"cannot serve on no\.such\.host\.invalid"):
        serve(page, "no.such.host.invalid", None)


def test_a_client_that_says_nothing_is_left(
    at: WatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 0 < (Handler.timeout or 0) <= server.LONGEST
    monkeypatch.setattr(Handler, "timeout", 0.1)
    with connected(at) as silent:
        assert silent.recv(1) == b""


def test_slow_clients_do_not_keep_others_waiting_and_are_hung_up_on(
    at: WatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor those who always have another byte in time."""
    monkeypatch.setattr(Handler, "timeout", None)
    slow = [connected(at) for _ in range(9)]
    for connection in slow:
        connection.sendall(b"GET / HT")
    assert ask(at, "/data.json")[0].status == 200
    monkeypatch.setattr(server, "LONGEST", 0.0)
    for connection in slow:
        assert connection.recv(1) == b""
        connection.close()
    monkeypatch.setattr(server, "LONGEST", 30.0)
    assert ask(at, "/data.json")[0].status == 200


def test_there_is_an_end_to_how_many_connections_are_taken(
    at: WatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MOST", 2)
    monkeypatch.setattr(Handler, "timeout", None)
    slow = [connected(at) for _ in range(3)]
    assert slow[2].recv(1) == b""
    for connection in slow:
        connection.close()
    wait_until(lambda: not at._open, "no connection is open")
    assert ask(at, "/data.json")[0].status == 200


@pytest.mark.filterwarnings("error")
def test_clients_that_break_off_leave_nothing_behind(
    at: WatchServer, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(5):
        with connected(at) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            linger = (1).to_bytes(4, "little") + bytes(4)  # reset, and no goodbye
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    assert ask(at, "/data.json")[0].status == 200
    assert capsys.readouterr() == ("", "")


def test_a_fault_in_making_the_page_is_told_and_the_next_is_tried(run: Path) -> None:
    faults = [ValueError("secret"), None]

    def build(runs: Sequence[LoadedRun], title: str) -> dict[str, Any]:
        if (fault := faults.pop(0)) is not None:
            raise fault
        return {}

    with served(run, build=build) as at:
        answer, text = ask(at, "/data.json")
        assert (answer.status, text) == (500, "the page cannot be made (ValueError)\n")
        assert ask(at, "/data.json")[0].status == 200


def test_a_page_that_waits_for_a_run_comes_again_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "<i>x & y"
    with served(path) as at:
        answer, page = ask(at, "/")
        assert answer.status == 200
        assert '<meta http-equiv="refresh" content="1">' in page
        assert "There is no folder" in page
        assert "&lt;i&gt;x &amp; y" in page
        assert "<i>" not in page
        data = json.loads(ask(at, "/data.json")[1])
        assert (data["live"]["state"], data["live"]["runs"]) == ("waiting", [])
        made_comparison(path, done=False)
        wait_until(lambda: 'http-equiv="refresh"' not in ask(at, "/")[1], "the page is whole")


def test_a_folder_that_is_moved_stays_on_the_page(at: WatchServer, run: Path) -> None:
    def live() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(ask(at, "/data.json")[1])["live"]
        return found

    assert live()["state"] == "running"
    run.rename(run.with_name("away"))
    wait_until(lambda: live()["state"] == "gone", "it is seen that the folder is gone")
    gone = live()
    assert gone["rounds_done"] == 3
    assert "is gone since" in gone["words"]
    assert ask(at, "/")[0].status == 200
    run.with_name("away").rename(run)
    wait_until(lambda: live()["state"] == "running", "it is seen that the folder is back")
