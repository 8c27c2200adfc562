"""Draw docs/images/idea.svg: one round of FedAvg and of FedFOR, two clients, two weights.

    python -m tools.draw_idea

Nothing in it is drawn by hand: the paths are gradient steps on two quadratic losses, with what the
package adds to the gradient, and the last update is that of the round before.
"""

import argparse
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fedfor.algorithms import FedFOR, Local
from fedfor.algorithms.fedfor import fedfor_gradient

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OUT = Path(__file__).parent.parent / "docs/images/idea.svg"
STEPS, RATE = 60, 0.05
FIRST = torch.tensor([-2.6, -2.35], dtype=torch.float64)
VIEW = (-2.85, 0.5, -2.75, 0.6)
INK, GREY = "#1a1a1a", "#5f5f5f"
# Apart by colour, by line and by marker, so that one of them is enough.
COLOURS, LINES, MARKS = ("#0072b2", "#c04f00"), ("solid", "dashed"), ("o", "s")


@dataclass(frozen=True)
class Client:
    """The loss 1/2 (w - best)^T H (w - best): a valley along `angle`, steep across it."""

    best: tuple[float, float]
    angle: float
    steep: float = 1.0
    flat: float = 0.02

    def hessian(self) -> Tensor:
        a = math.radians(self.angle)
        along = torch.tensor([math.cos(a), math.sin(a)], dtype=torch.float64)
        across = torch.tensor([-math.sin(a), math.cos(a)], dtype=torch.float64)
        return self.flat * torch.outer(along, along) + self.steep * torch.outer(across, across)

    def off(self, w: Tensor) -> Tensor:
        return w - torch.tensor(self.best, dtype=torch.float64)

    def gradient(self, w: Tensor) -> Tensor:
        return self.off(w) @ self.hessian()

    def loss(self, w: Tensor) -> Tensor:
        return 0.5 * (self.gradient(w) * self.off(w)).sum(-1)


CLIENTS = (Client((0.75, 0.4), 24), Client((0.25, 0.8), 64))


@dataclass(frozen=True)
class Round:
    """What happened between w(t-1) and w(t): each client's path, and their mean."""

    before: Tensor
    start: Tensor
    paths: tuple[Tensor, ...]

    @property
    def end(self) -> Tensor:
        return torch.stack([path[-1] for path in self.paths]).mean(0)


def local_path(client: Client, start: Tensor, direction: Tensor, c: float) -> Tensor:
    """Where a client's weights are after each of its steps."""
    path = [start]
    for _ in range(STEPS):
        w = path[-1]
        pull = fedfor_gradient(w, start, direction, c)
        path.append(w - RATE * (client.gradient(w) + pull))
    return torch.stack(path)


def round_after(before: Tensor, start: Tensor, c: float) -> Round:
    paths = tuple(local_path(client, start, before - start, c) for client in CLIENTS)
    return Round(before, start, paths)


def rounds() -> dict[str, Round]:
    """The second round of both methods; the first, without a last update, is the same for both."""
    second = round_after(FIRST, FIRST, 0.0).end
    strength = FedFOR().c(Local(lr=RATE, steps=STEPS))
    assert isinstance(strength, float)
    return {
        "FedAvg": round_after(FIRST, second, 0.0),
        "FedFOR": round_after(FIRST, second, strength),
    }


def joint_best() -> Tensor:
    """Where the sum of the clients' losses is least."""
    hessians = [client.hessian() for client in CLIENTS]
    pulls = [-client.gradient(torch.zeros(2, dtype=torch.float64)) for client in CLIENTS]
    return torch.linalg.solve(torch.stack(hessians).sum(0), torch.stack(pulls).sum(0))


def draw(path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    style = {
        "font.family": "DejaVu Sans",
        "font.size": 13.5,
        "axes.edgecolor": GREY,
        "hatch.linewidth": 0.7,
        "svg.hashsalt": "idea",  # names of clip paths: the same in every run
    }
    with plt.rc_context(style):
        figure, panels = plt.subplots(1, 2, figsize=(10, 5.5))
        for axes, (name, one) in zip(panels, rounds().items(), strict=True):
            _losses(axes)
            if name == "FedFOR":
                _penalised(axes, one.start)
            _moves(axes, one)
            left, right, low, high = VIEW
            axes.set(xlim=(left, right), ylim=(low, high), aspect="equal", xticks=[], yticks=[])
            axes.set_xlabel("weight 1  \N{RIGHTWARDS ARROW}")
            axes.set_ylabel("weight 2  \N{RIGHTWARDS ARROW}")
        panels[0].set_title("FedAvg: clients drift apart", fontweight="bold", pad=10)
        panels[1].set_title("FedFOR: moving back is penalised", fontweight="bold", pad=10)
        figure.tight_layout(w_pad=2)
        figure.savefig(path, metadata={"Date": None}, facecolor="white", dpi=150)
        plt.close(figure)


def _losses(axes: "Axes") -> None:
    left, right, low, high = VIEW
    across = torch.linspace(left, right, 300, dtype=torch.float64)
    up = torch.linspace(low, high, 300, dtype=torch.float64)
    x, y = torch.meshgrid(across, up, indexing="xy")
    for client, colour, line in zip(CLIENTS, COLOURS, LINES, strict=True):
        heights = client.loss(torch.stack([x, y], -1))
        levels = [0.01, 0.05, 0.16, 0.4, 0.8, 1.4]
        looks: dict[str, Any] = {
            "colors": colour,
            "linestyles": line,
            "linewidths": 0.8,
            "alpha": 0.5,
        }
        axes.contour(x.numpy(), y.numpy(), heights.numpy(), levels, **looks)


def _penalised(axes: "Axes", start: Tensor) -> None:
    """Where a weight is on the wrong side of w(t-1), seen from the last update."""
    left, _, low, _ = VIEW
    x, y = start.tolist()
    looks: dict[str, Any] = {
        "facecolor": "#f4f4f4",
        "edgecolor": "#bdbdbd",
        "linewidth": 0.0,
        "zorder": 0,
    }
    axes.axvspan(left, x, hatch="//", **looks)
    axes.axhspan(low, y, hatch="\\\\", **looks)
    words: dict[str, Any] = {"fontsize": 12.5, "color": INK, "ha": "center", "va": "center"}
    ground = {"facecolor": "white", "edgecolor": "none", "alpha": 0.9, "pad": 2.0}
    axes.text(left + 0.37, -0.15, "weight 1\npulled\nback", bbox=ground, **words)
    axes.text(-0.55, low + 0.33, "weight 2 pulled back", bbox=ground, **words)


def _moves(axes: "Axes", one: Round) -> None:
    arrow = {"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 5}
    grey = {**arrow, "color": GREY, "lw": 3.5, "mutation_scale": 20}
    black = {**arrow, "color": INK, "lw": 3, "mutation_scale": 22}
    axes.annotate("", _at(one.start), _at(one.before), arrowprops=grey)
    axes.annotate("", _at(one.end), _at(one.start), arrowprops=black, zorder=6)
    for path, colour, mark in zip(one.paths, COLOURS, MARKS, strict=True):
        axes.plot(*path.T, color=colour, lw=2.2, zorder=5)
        axes.plot(*path[6::6].T, mark, color=colour, ms=4.5, zorder=5)
        axes.plot(*path[-1], mark, color=colour, ms=11, mec="white", zorder=7)
    axes.plot(*one.start, "o", color=INK, ms=9, mec="white", zorder=7)
    axes.plot(*one.end, "D", color=INK, ms=10, mec="white", zorder=8)
    axes.plot(*joint_best(), "*", color=INK, ms=21, mec="white", zorder=8)
    _labels(axes, one)


def _labels(axes: "Axes", one: Round) -> None:
    places = [
        ("last global update", one.before, (-12, -22), GREY, "left"),
        ("client 1", one.paths[0][-1], (0, 12), COLOURS[0], "center"),
        ("client 2", one.paths[1][-1], (0, -23), COLOURS[1], "center"),
        ("new model", one.end, (11, 3), INK, "left"),
        ("best for both", joint_best(), (0, -26), INK, "center"),
    ]
    ground = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.0}
    for words, place, offset, colour, side in places:
        axes.annotate(
            words,
            _at(place),
            offset,
            textcoords="offset points",
            ha=side,
            color=colour,
            bbox=ground,
            zorder=9,
        )


def _at(w: Tensor) -> tuple[float, float]:
    return float(w[0]), float(w[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT)
    draw(parser.parse_args().out)


if __name__ == "__main__":
    main()
