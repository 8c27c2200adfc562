"""A small federation's client, for tests in one process."""

from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from torch import nn

import fedfor
from fedfor.data import DataSplit, Population, iid_split
from fedfor.models import build_model
from fedfor.randomness import torch_seeded
from tests.conftest import made_data

SEED = 3
TRAINING = fedfor.Training(epochs=2, batch_size=5, lr=0.05)


def population(clients: int, split: DataSplit | None = None) -> Population:
    return iid_split(split or made_data(), clients, SEED)


def new_model(name: str = "mlp", split: DataSplit | None = None) -> nn.Module:
    split = split or made_data()
    with torch_seeded(SEED, "init"):
        return build_model(name, split.train.x.shape[1:], split.train.classes)


def client_app(
    clients: int, model: str = "mlp", mods: list[Any] | None = None, **options: Any
) -> ClientApp:
    app = ClientApp(mods=mods)
    people = population(clients)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        number = int(context.node_config["partition-id"])
        samples = people.samples(number, 1)
        return fedfor.flower.train(
            message, context, new_model(model), samples, training=TRAINING, seed=SEED, **options
        )

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        return fedfor.flower.evaluate(message, context, new_model(model), people.split.test)

    return app
