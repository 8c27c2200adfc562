"""Flower: its own simulation engine, on Ray, with an actor for each core."""

import os

# Flower and Ray read these when they are imported, in the actors too.
os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import time
from functools import cache

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch import nn

from .task import make_data, make_model, train_client

ACTORS = 2

# An actor serves many messages: it makes data and model once, which favours Flower a little.
data_here = cache(make_data)
model_here = cache(make_model)

client_app = ClientApp()


@client_app.train()
def train(message: Message, context: Context) -> Message:
    torch.set_num_threads(1)
    arrays = message.content["arrays"]
    client = int(context.node_config["partition-id"])
    xs, ys = data_here(int(message.content["config"]["clients"]))
    model = model_here(str(message.content["config"]["model"]))
    model.load_state_dict(arrays.to_torch_state_dict())
    train_client(model, xs[client], ys[client])
    reply = RecordDict(
        {
            "arrays": ArrayRecord(model.state_dict()),
            "metrics": MetricRecord({"num-examples": len(ys[client])}),
        }
    )
    return Message(reply, reply_to=message)


def run(name: str, rounds: int, clients: int) -> tuple[list[float], nn.Module]:
    ends: list[float] = []
    model = make_model(name)
    server_app = ServerApp()

    @server_app.main()
    def serve(grid: Grid, context: Context) -> None:
        strategy = FedAvg(fraction_evaluate=0.0, min_available_nodes=clients)
        result = strategy.start(
            grid,
            ArrayRecord(model.state_dict()),
            num_rounds=rounds,
            train_config=ConfigRecord({"model": name, "clients": clients}),
            # Called before the first round and after each: as good as a clock.
            evaluate_fn=lambda number, arrays: ends.append(time.perf_counter()),
        )
        model.load_state_dict(result.arrays.to_torch_state_dict())

    run_simulation(
        server_app,
        client_app,
        num_supernodes=clients,
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"num_cpus": ACTORS, "include_dashboard": False},
        },
    )
    return ends[1:], model
