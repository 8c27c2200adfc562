import time
from pathlib import Path

import torch
from flwr.app import Array, ArrayRecord, Context, Message
from flwr.clientapp import ClientApp

import fedfor.flower

from .task import SEED, TRAINING, new_model, people

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    config, number = context.run_config, int(context.node_config["partition-id"])
    fault = context.node_config.get("fault")
    if config["marks"]:
        mark = f"{message.content['config']['server-round']}-{number}"
        (Path(config["marks"]) / mark).touch()
        while mark == config["hold"] and not (Path(config["marks"]) / "go-on").exists():
            time.sleep(0.05)
    if fault == "raise":
        raise RuntimeError("the disk of this node is full")
    data = people(config["nodes"]).samples(number, 1)
    reply = fedfor.flower.train(message, context, new_model(), data, training=TRAINING, seed=SEED)
    arrays = reply.content["arrays"].to_torch_state_dict()
    name = next(iter(arrays))
    if fault == "nan":
        arrays[name] = torch.full_like(arrays[name], float("nan"))
    if fault == "shape":
        arrays[name] = arrays[name].flatten()
    if fault:
        reply.content["arrays"] = ArrayRecord({n: Array(t) for n, t in arrays.items()})
    return reply
