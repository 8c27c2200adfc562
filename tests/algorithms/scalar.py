"""A federation small enough for pencil and paper: one weight, two clients.

The model is w x and the loss (w x - y)^2 / 2. Client A has x = 1, y = 3, so its gradient is w - 3;
client B has x = 1, y = 0, so its gradient is w. Each takes two full-batch steps with learning
rate 0.1, starting at w = 1.
"""

import torch
from torch import Tensor, nn

from fedfor.algorithms import Algorithm
from fedfor.engines import fisher_diagonal
from fedfor.protocol import Kept, LocalRound, Server

LR, STEPS = 0.1, 2
DATA = {"A": (1.0, 3.0), "B": (1.0, 0.0)}


class OneWeight(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor([1.0], dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return self.w * x


def half_square(prediction: Tensor, y: Tensor) -> Tensor:
    return 0.5 * (prediction - y).square().mean()


class Federation:
    def __init__(self, algorithm: Algorithm, population: int = 2) -> None:
        self.algorithm = algorithm
        self.model = OneWeight()
        self.server = Server(algorithm, self.model, population)
        self.kept: dict[str, Kept | None] = {}
        self.after_training: dict[str, float] = {}

    def round(self, clients: str = "AB", examples: tuple[int, ...] = (1, 1)) -> float:
        """One round; returns the new global weight."""
        message = self.server.message()
        replies = []
        for client, n in zip(clients, examples, strict=False):
            x, y = (torch.tensor([v], dtype=torch.float64) for v in DATA[client])
            optimizer = torch.optim.SGD(self.model.parameters(), lr=LR)
            kept = self.kept.get(client)
            local = LocalRound(self.algorithm, self.model, optimizer, message, kept, steps=STEPS)
            for _ in range(STEPS):
                optimizer.zero_grad()
                half_square(self.model(x), y).backward()
                optimizer.step()
            self.after_training[client] = self.model.w.item()
            fisher = None
            if self.algorithm.client.needs_fisher:
                fisher = fisher_diagonal(self.model, half_square, x, y)
            reply, self.kept[client] = local.finish(n, fisher)
            replies.append(reply)
        self.server.aggregate(replies, LR)
        return self.server.params["w"].item()
