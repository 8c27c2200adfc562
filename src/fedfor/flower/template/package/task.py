"""What this federation learns: the model and each node's data. Put your own here."""

import torch
from flwr.app import Context
from torch import nn

from fedfor import ConfigError
from fedfor.data import Samples, by_domain, digit_domains
from fedfor.models import build_model
from fedfor.randomness import torch_seeded


def new_model(seed: int) -> nn.Module:
    """The model, the same on server and nodes: any nn.Module."""
    torch.set_num_threads(1)  # several nodes may share a machine
    train = digit_domains().train
    with torch_seeded(seed, "init"):
        return build_model("cnn-bn", train.x.shape[1:], train.classes)


def node_data(context: Context) -> tuple[Samples, Samples, str]:
    """A node's training and test data, and their name.

    Here one of five domains of digits, by the node's partition-id. In your own: a pair of tensors
    (x, y) or a DataLoader, read from wherever this node has them.
    """
    clients = by_domain(digit_domains())
    if "partition-id" not in context.node_config:
        raise ConfigError("start this SuperNode with --node-config 'partition-id=0', or 1, 2, ...")
    number = int(context.node_config["partition-id"]) % clients.size
    test = clients.tests(1)[number]
    return clients.samples(number, 1), test.samples, test.name
