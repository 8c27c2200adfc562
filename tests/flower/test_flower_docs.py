"""docs/flower.md, done to the letter."""

import importlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from fedfor.experiments.folder import RunFolder

from ..processes import HANG, own_port, wait_until
from .grid import InProcessGrid
from .processes import BIN

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/flower.md").read_text()


def blocks(language: str, heading: str) -> list[str]:
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


def test_the_diff_puts_fedfor_into_an_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (diff,) = blocks("diff", "In an app that you have")
    changed = [line[0] for line in diff.splitlines() if re.match(r"[+-](?![+-]{2} )", line)]
    assert (changed.count("+"), changed.count("-")) == (6, 7)  # as the page says
    app = tmp_path / "existing"
    shutil.copytree(Path(__file__).parent / "existing_app", app)
    monkeypatch.syspath_prepend(tmp_path)
    config = {"fraction-train": 1.0, "lr": 0.1, "num-server-rounds": 3, "local-epochs": 2}
    fedavg = run_app(config)
    git = ["git", "apply", "-"]
    subprocess.run(git, input=diff, text=True, cwd=app, check=True, timeout=HANG)
    fedfor = run_app(config)
    assert all(len(m.content.array_records) == 1 for m in fedavg.asked)
    extras = [m for m in fedfor.asked if "extras" in m.content.array_records]
    assert len(extras) == 2 * 2  # two nodes, from round 2 on
    assert all(len(context.state) == 0 for context in fedfor.contexts.values())


def run_app(config: dict[str, object]) -> InProcessGrid:
    for name in [n for n in sys.modules if n.split(".")[0] == "existing"]:
        del sys.modules[name]
    importlib.invalidate_caches()
    client, server = (importlib.import_module(f"existing.{n}_app") for n in ("client", "server"))
    grid = InProcessGrid(client.app, 2, config)
    context = grid.contexts[100]
    server.app(grid, type(context)(1, 1, {}, type(context.state)(), config))
    assert not any(reply.has_error() for reply in grid.replies)
    return grid


NEEDED = ("openssl", "ssh-keygen", "bash")


@pytest.mark.cluster
@pytest.mark.skipif(
    not all(map(shutil.which, NEEDED)), reason=f"docs/flower.md needs {', '.join(NEEDED)}"
)
def test_the_commands_make_a_federation(tmp_path: Path) -> None:
    make_ca, link, make_key, register, node, run = blocks(
        "sh", "Three nodes and a server, with TLS and keys"
    )
    port = own_port()
    env = {
        **{k: v for k, v in os.environ.items() if not k.startswith("FLWR_")},
        "HOME": str(tmp_path),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
    }

    def ours(block: str, number: int = 1) -> str:
        """As on the machine of a node: its key, its part of the data, a port that is free here."""
        block = block.replace("PORT=9093", f"PORT={port}")
        block = block.replace("node-1\n", f"node-{number}\n").replace("node-1 ", f"node-{number} ")
        block = block.replace("partition-id=0", f"partition-id={number - 1}")
        return block.replace("--port 9201", f"--port {own_port()}")

    def do(block: str) -> None:
        done = subprocess.run(
            ["bash", "-euc", block], env=env, capture_output=True, text=True, timeout=HANG
        )
        assert done.returncode == 0, done.stdout + done.stderr

    @contextmanager
    def going_on(block: str, log: Path) -> Iterator[None]:
        with log.open("wb") as file:
            process = subprocess.Popen(
                ["bash", "-euc", block],
                env=env,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=HANG)

    do(ours(make_ca))
    with going_on(ours(link), tmp_path / "link.log"):
        wait_until(
            lambda: "running on" in (tmp_path / "link.log").read_text(), "the SuperLink runs"
        )
        for number in (1, 2, 3):
            do(ours(make_key, number))
        do(ours(register))
        with (
            going_on(ours(node, 1), tmp_path / "node1.log"),
            going_on(ours(node, 2), tmp_path / "node2.log"),
            going_on(ours(node, 3), tmp_path / "node3.log"),
        ):
            do(ours(run).replace("rounds=3", "rounds=1"))
    records = RunFolder(tmp_path / "federation/run").records()
    assert [r["clients"] for r in records] == [3]
    assert len(records[0]["domains"]) == 3
