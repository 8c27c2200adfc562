"""`fedfor watch` as people use it: a process beside one that trains."""

import json
import os
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from fedfor.experiments.config import RunConfig
from fedfor.experiments.folder import RunFolder
from fedfor.experiments.load import load_config, read_toml
from fedfor.experiments.run import run_in_folder, start_run

from ..conftest import Cli
from ..halting import Halting, after, halted
from ..processes import HANG, wait_until
from ..report.made import made_comparison, made_record, made_run
from .processes import fedfor, live

pytestmark = pytest.mark.processes

ROUNDS = 10
SETTINGS = [
    f"rounds={ROUNDS}", "population.cohort=5", "training.epochs=1",
    "model.name=tests.halting:halting_linear", "engine=serial",
]  # fmt: skip


def settings() -> RunConfig:
    return load_config(read_toml("prior-shift"), SETTINGS)


def result(folder: Path) -> tuple[list[dict[str, Any]], str]:
    records = [
        {key: value for key, value in record.items() if key != "seconds"}
        for record in RunFolder(folder).records()
    ]
    return records, json.loads((folder / "summary.json").read_text())["model_sha256"]


def test_a_run_is_seen_round_by_round_and_is_not_disturbed(tmp_path: Path) -> None:
    """Started before the run, with its folder moved and back in the middle, until its end."""
    folder, flag, before = tmp_path / "r", tmp_path / "halted", Halting.passes
    alone = RunFolder(tmp_path / "alone")
    start_run(alone, settings())
    run_in_folder(alone)
    of_round = (Halting.passes - before) / ROUNDS
    with fedfor("watch", folder, "--port", "0", cwd=tmp_path) as watching:
        url = watching.address()
        assert live(url)["state"] == "waiting"

        def says(words: str) -> None:
            what = f"its last line begins with {words}"
            wait_until(lambda: watching.said()[-1].startswith(words), what, watching.process)

        def shows(rounds: int) -> None:
            wait_until(lambda: live(url)["rounds_done"] == rounds, f"round {rounds} is shown")

        words = [word for setting in SETTINGS for word in ("--set", setting)]
        told = after(3.5 * of_round, flag)
        with fedfor("run", "prior-shift", *words, "-o", "r", cwd=tmp_path, **told) as training:
            wait_until(lambda: halted(flag), "the run halts in round 4", training.process)
            shows(3)
            says("running: ")
            folder.rename(tmp_path / "away")
            says("gone: ")
            assert live(url)["state"] == "gone"
            assert live(url)["rounds_done"] == 3
            (tmp_path / "away").rename(folder)
            says("running: ")
            flag.with_suffix(".go").touch()
            shows(ROUNDS)
            assert training.end() == 0
        says("ended: The run has ended.")
        assert live(url)["state"] == "ended"
        assert live(url, live(url)["version"]) == {}
        assert watching.end(signal.SIGINT) == 130
    said = [line.partition(":")[0] for line in watching.said()[1:]]
    assert said == ["waiting", "running", "gone", "running", "ended"]
    assert result(folder) == result(alone.path)


def test_a_run_that_was_stopped_and_resumed_is_followed_to_its_end(tmp_path: Path) -> None:
    def stop(record: dict[str, Any]) -> None:
        if record["round"] == 3:
            raise KeyboardInterrupt

    folder = RunFolder(tmp_path / "r")
    start_run(folder, settings())
    with pytest.raises(KeyboardInterrupt):
        run_in_folder(folder, stop)
    with fedfor("watch", "r", "--terminal", cwd=tmp_path) as watching:
        wait_until(watching.said, "it says something", watching.process)
        assert "3 of 10 rounds" in watching.said()[0]
        run_in_folder(folder)
        assert watching.end() == 0
    assert watching.said()[-1] == "10 of 10 rounds. The run has ended."


def test_on_a_terminal_it_is_a_table_that_survives_a_change_of_size(tmp_path: Path) -> None:
    pty = pytest.importorskip("pty", reason="no pseudo-terminals on this system")
    import fcntl
    import select
    import struct
    import subprocess
    import sys
    import termios

    path = made_comparison(tmp_path / "c", rounds=2, planned=4, done=False)
    master, slave = pty.openpty()

    def resize(rows: int, columns: int) -> None:
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    resize(24, 80)
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [sys.executable, "-m", "fedfor.cli", "watch", str(path), "--terminal"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**environment, "TERM": "xterm"},
    )
    os.close(slave)
    shown = b""

    def has(words: bytes) -> bool:
        nonlocal shown
        if select.select([master], [], [], 0)[0]:
            shown += os.read(master, 65536)
        return words in shown

    try:
        wait_until(lambda: has("━".encode() * 40 + "┄".encode() * 40), "bars of 80 columns")
        resize(12, 40)
        wait_until(lambda: has("━".encode() * 20 + "┄".encode() * 20 + b"\x1b"), "bars of 40")
        process.send_signal(signal.SIGINT)
        wait_until(lambda: has(b"\x1b[?1049l"), "the screen is given back")
        assert process.wait(HANG) == 130
    finally:
        process.kill()
        process.wait(HANG)
        os.close(master)
    assert b"Traceback" not in shown


def test_mistakes_get_one_sentence_and_exit_code_2(fedfor: Cli, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("")
    made_run(tmp_path / "r")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        cases = [
            (("letter.txt",), "letter.txt is a file; name the folder of a run"),
            (("r", "--port", str(port)), f"cannot serve on 127.0.0.1, port {port} ("),
            (("r", "--host", "no.such.host.invalid"), "cannot serve on no.such.host.invalid"),
        ]
        for words, expected in cases:
            code, _, err = fedfor("watch", *words)
            assert (code, err.count("\n")) == (2, 1)
            assert expected in err
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "x").write_text("")
    code, _, err = fedfor("watch", "foreign")
    assert (code, "foreign holds no run" in err) == (2, True)


def test_more_than_loopback_is_served_only_if_asked_for_and_with_a_warning(tmp_path: Path) -> None:
    path = made_run(tmp_path / "r", rounds=2, planned=4, done=False)
    words = ("watch", path, "--port", "0", "--host", "0.0.0.0")
    with fedfor(*words, cwd=tmp_path) as watching:
        url = f"http://127.0.0.1:{watching.address().rstrip('/').rpartition(':')[2]}/"
        assert live(url)["rounds_done"] == 2
        RunFolder(path).append(made_record(3, 0.5))
        wait_until(lambda: live(url)["rounds_done"] == 3, "round 3 is shown")
        assert watching.end(signal.SIGTERM) == 130
    assert watching.said()[0].startswith("warning: everybody who can reach 0.0.0.0 can read")
    assert "Traceback" not in "\n".join(watching.said())
