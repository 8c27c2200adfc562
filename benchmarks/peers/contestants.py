from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec

from torch import nn


@dataclass(frozen=True)
class Contestant:
    module: str
    """Holds run(model, rounds, clients): the clock at each round's end, and the model then."""
    package: str
    options: dict[str, str | int] = field(default_factory=dict)
    workers: int = 1
    """Processes that torchrun starts. Flower's actors are its own affair."""

    @property
    def launcher(self) -> list[str]:
        """What of python's arguments goes before the module."""
        if self.workers == 1:
            return []
        return ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={self.workers}"]

    @property
    def missing(self) -> bool:
        return find_spec(self.package) is None

    def run(self, model: str, rounds: int, clients: int) -> tuple[list[float], nn.Module]:
        return import_module(f".{self.module}", __package__).run(
            model, rounds, clients, **self.options
        )


CONTESTANTS = {
    "fedfor, vector": Contestant("ours", "fedfor", {"engine": "vector"}),
    "fedfor, vector, two threads": Contestant("ours", "fedfor", {"engine": "vector", "threads": 2}),
    "fedfor, serial": Contestant("ours", "fedfor", {"engine": "serial"}),
    "fedfor, ray, one worker, serial": Contestant(
        "on_ray", "ray", {"workers": 1, "within": "serial"}
    ),
    "fedfor, ray, two workers, serial": Contestant(
        "on_ray", "ray", {"workers": 2, "within": "serial"}
    ),
    "fedfor, ray, two workers": Contestant("on_ray", "ray", {"workers": 2}),
    "plain loop": Contestant("plain", "torch"),
    "pfl-research": Contestant("pfl_research", "pfl"),
    "pfl-research, two workers": Contestant("pfl_research", "pfl", workers=2),
    "Flower, two actors": Contestant("flower", "flwr"),
}
