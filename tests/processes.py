"""What tests share that start processes, or wait for what others do.

A test waits for something that happens: a file, a line, an exit. How long that takes is the
machine's business; the bound is there to end a test that hangs, and says what it waited for.
"""

import getpass
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from filelock import FileLock, Timeout

HANG = 600.0
"""Seconds after which something hangs. On the busiest machine nothing here takes nearly as long."""

LOOK_EVERY = 0.02

PORTS = range(20000, 23000)
"""Below those that a system gives to whoever asks for any, and apart from those Ray takes."""

T = TypeVar("T")


def wait_until(
    happened: Callable[[], T], what: str, process: "subprocess.Popen[bytes] | None" = None
) -> T:
    """Wait until `happened()` is true, and return it. Fail if the process ends before that."""
    deadline = time.monotonic() + HANG
    while True:
        code = None if process is None else process.poll()
        if found := happened():
            return found
        assert code is None, f"the process ended with code {code} before this: {what}"
        assert time.monotonic() < deadline, f"waited {HANG:g} s in vain for this: {what}"
        time.sleep(LOOK_EVERY)


_ports: dict[int, FileLock] = {}


def own_port() -> int:
    """A free port that no other test is given for as long as this process lives."""
    folder = Path(tempfile.gettempdir(), f"fedfor-test-ports-{getpass.getuser()}")
    folder.mkdir(exist_ok=True)
    for port in PORTS:
        if port in _ports:
            continue
        lock = FileLock(folder / str(port))
        try:
            lock.acquire(timeout=0)
        except Timeout:
            continue
        try:
            with socket.create_server(("127.0.0.1", port)):
                pass
        except OSError:  # somebody's who is no test
            lock.release()
            continue
        _ports[port] = lock
        return port
    raise RuntimeError(f"no port from {PORTS.start} to {PORTS.stop - 1} is free")


def without_group(name: str) -> str:
    """The name of a test, to which pytest-xdist adds that of its group."""
    return name.rpartition("@")[0] if name.rfind("@") > name.rfind("]") else name


def is_alive(pid: int) -> bool:
    """One that has ended and waits for somebody to take note of it is not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:  # gone meanwhile, or a system without /proc
        return not Path("/proc/self").exists()
    return state != b"Z"


def with_variable(name: str, value: str, program: str = "") -> list[int]:
    """Processes of this program to whose environment this was given, and theirs. On Linux only.

    So that a test finds what it has started, whatever else the machine runs.
    """
    found, mark = [], f"{name}={value}\0".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            is_it = program.encode() in (entry / "cmdline").read_bytes()
            if is_it and mark in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:  # it has ended meanwhile, or is somebody else's
            continue
    return [pid for pid in found if pid != os.getpid()]
