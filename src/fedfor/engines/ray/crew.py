"""The workers of a run: started, lost, replaced."""

import logging
import sys
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import FedforError
from ...protocol.states import SEEN
from ..clustered import MOST
from .cluster import Cluster, imported, reason
from .worker import CONTROL, About, Worker

log = logging.getLogger("fedfor")

PATIENCE = 120.0
"""Seconds without any worker, or without news of a new one, after which a run gives up."""

MOST_LOST_AT_START = 5


@dataclass
class Member:
    """A worker, as the driver knows it."""

    number: int
    actor: Any
    about: About | None = None
    """None until it is ready."""
    busy: Any = None
    """The reference that it will answer by, while it is at work."""

    memory: int = 0
    """Bytes that its process holds in memory, as it last said."""

    @property
    def idle(self) -> bool:
        return self.about is not None and self.busy is None


class Crew:
    def __init__(self, cluster: Cluster, workers: int | None, gpus: bool) -> None:
        self._cluster, self._asked, self._gpus = cluster, workers, gpus
        self.members: dict[int, Member] = {}
        self._starting: dict[Any, Member] = {}
        self._next, self._failed_starts = 0, 0
        self.lanes: int | None = None
        self._seen: Path | None = None
        self._last_news = 0.0
        self.wanted = 0

    def start(self, folder: Path | None) -> None:
        """Connect, and have workers started; the first that is ready can be given work.

        Those that see the folder read and write clients' state there for themselves.
        """
        self._cluster.open()
        ray = imported()
        if folder is not None:
            self._seen = folder / f"{SEEN}{uuid.uuid4().hex}"
            folder.mkdir(parents=True, exist_ok=True)
            self._seen.touch()
        resources = ray.cluster_resources()
        there = int(resources.get("GPU" if self._gpus else "CPU", 0))
        if there == 0:
            what = "GPU: use device = 'cpu'" if self._gpus else "CPU"
            raise FedforError(f"the Ray cluster has no {what}")
        self.wanted = self._asked or there
        if self.wanted > there:
            log.warning(
                "%d workers were asked for, and the cluster has room for %d", self.wanted, there
            )
        for _ in range(self.wanted):
            self._hire()

    def _hire(self) -> None:
        ray = imported()
        kind = ray.remote(concurrency_groups={CONTROL: 1})(Worker)
        paths = [str(Path.cwd()), *(p for p in sys.path if p)]
        resources = {"num_cpus": 1, "num_gpus": int(self._gpus), "max_restarts": 0}
        actor = kind.options(**resources).remote(paths, self.lanes)
        member = Member(self._next, actor)
        self._next += 1
        seen = None if self._seen is None else str(self._seen)
        self._starting[actor.ready.remote(seen)] = member
        self._last_news = time.monotonic()

    @property
    def awaited(self) -> list[Any]:
        """What tells that a worker is ready."""
        return list(self._starting)

    def idle(self) -> list[Member]:
        return [member for member in self.members.values() if member.idle]

    def welcome(self, reference: Any) -> None:
        """A worker is ready, or could not be started."""
        member = self._starting.pop(reference)
        self._last_news = time.monotonic()
        try:
            member.about = about = imported().get(reference)
        except imported().exceptions.RayError as error:
            self._failed_starts += 1
            if self._failed_starts > MOST_LOST_AT_START:
                raise FedforError(
                    f"workers cannot be started on the Ray cluster: {reason(error)}; is fedfor "
                    "installed there, in the same version?"
                ) from error
            self._hire()
            return
        member.memory = about.memory
        self.members[member.number] = member

    def halve(self) -> None:
        """Workers to come train half as many clients together: those before ran out of memory."""
        self.lanes = max(1, (self.lanes or MOST) // 2)

    def lose(self, member: Member, error: Exception) -> str:
        """Somebody is gone: have another started. Gives back where it was."""
        self.members.pop(member.number, None)
        with suppress(Exception):  # if it is only out of reach, it must not come back
            imported().kill(member.actor)
        self._last_news = time.monotonic()
        where = member.about.address if member.about else "?"
        self._hire()
        return where

    def require_some(self) -> None:
        """Not to be waited for in vain."""
        if self.members or time.monotonic() - self._last_news < PATIENCE:
            return
        raise FedforError(
            f"no worker of the Ray cluster was ready within {PATIENCE:g} s: it has no room for "
            "one; what was done is kept, and 'fedfor resume' goes on with it"
        )

    def close(self) -> None:
        """Send everyone home."""
        with suppress(KeyboardInterrupt):  # a second one: all of it ends with this process anyway
            ray = imported()
            for member in [*self.members.values(), *self._starting.values()]:
                if ray.is_initialized():
                    ray.kill(member.actor)
            self.members.clear()
            self._starting.clear()
            if self._seen is not None:
                self._seen.unlink(missing_ok=True)
                self._seen = None
            self._cluster.close()
