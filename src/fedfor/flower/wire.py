"""How the messages of protocol/ lie in Flower's records.

    down, TRAIN      arrays  ArrayRecord   the model
                     extras  ArrayRecord   what the ClientOpt sends beside it, `extra/parameter`
                     config  ConfigRecord  the user's, and the keys below
        in the cross-silo form, to a client that has the last model
                     arrays      ArrayRecord   empty
                     difference  ArrayRecord   see silo.py
    down, EVALUATE   arrays, config
    up,   TRAIN      arrays  ArrayRecord   the model, and what goes up beside it, `extra/parameter`
                     metrics MetricRecord  num-examples and the client's own metrics
                     fedfor  ConfigRecord  what the server's record needs to know
    up,   EVALUATE   metrics MetricRecord  num-examples, accuracy, loss
                     fedfor  ConfigRecord  name: of the data it was tested on

Replies hold one ArrayRecord and one MetricRecord: Flower's strategies and its wrappers want that.
"""

import json
from dataclasses import dataclass
from typing import Any

from flwr.app import ConfigRecord, RecordDict

from ..algorithms import CLIENT_OPTS, Algorithm, algorithm, settings
from ..algorithms.presets import as_algorithm
from ..errors import ConfigError
from ..tensors import Extras, Tensors, flatten

ARRAYS, EXTRAS, DIFFERENCE, METRICS, ABOUT = "arrays", "extras", "difference", "metrics", "fedfor"
EXAMPLES = "num-examples"

ROUND = "fedfor-round"
ALGORITHM = "fedfor-algorithm"
KEEP = "fedfor-keep"
"""Whether the client is to keep the model for the next difference."""
FINGERPRINT = "fedfor-fingerprint"
"""Of the model that comes out of the difference."""
COUNTED = "fedfor-counted"
"""The last round in which this client's reply was used; what it kept from a later one is void."""


@dataclass(frozen=True)
class About:
    """What a client tells of its round beside tensors and metrics."""

    round: int
    steps: int
    lr: float
    client: int
    """Its partition-id, or -1. Replies are summed in this order, whichever comes first."""
    state_bytes: int

    def record(self) -> ConfigRecord:
        return ConfigRecord(
            {
                "round": self.round,
                "steps": self.steps,
                "lr": self.lr,
                "client": self.client,
                "state-bytes": self.state_bytes,
            }
        )


def as_text(chosen: Algorithm) -> str:
    """What clients must know of an algorithm, for the message."""
    known = CLIENT_OPTS.get(chosen.client.name) is type(chosen.client)
    own = {} if known else {"own": True}
    spelled = {"name": chosen.client.name, **own, **settings(chosen.client)}
    return json.dumps({**spelled, "sharing": chosen.sharing})


def algorithm_of(text: str, given: Any = None) -> Algorithm:
    """The algorithm that the server names. One's own, which it can only name, must be `given`."""
    try:
        told = json.loads(text)
        name, own = told.pop("name"), told.pop("own", False)
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise ConfigError(f"the server's message names no algorithm: {text!r:.80}") from error
    if given is not None:
        mine = as_algorithm(given)
        if json.loads(as_text(mine)) != json.loads(text):
            raise ConfigError(
                f"the server runs {text}, this client was given {as_text(mine)}; give both the same"
            )
        return mine
    if own or name not in CLIENT_OPTS:  # nothing is imported because a server says so
        raise ConfigError(
            f"the server runs '{name}', which is not one of fedfor's own; pass it to this client "
            "as well: algorithm=..."
        )
    return algorithm(name, **told)


def round_and_algorithm(content: RecordDict) -> tuple[ConfigRecord, int, str]:
    """The config of a message that a fedfor strategy sent, its round and its algorithm."""
    for config in content.config_records.values():
        number, text = config.get(ROUND), config.get(ALGORITHM)
        if isinstance(number, int) and isinstance(text, str):
            return config, number, text
    raise ConfigError(
        "this message does not come from a fedfor strategy: none of its ConfigRecords has "
        f"'{ROUND}' and '{ALGORITHM}'; use fedfor.flower.Strategy in the ServerApp"
    )


def joined(model: Tensors, extras: Extras) -> Tensors:
    """One record for all that goes up."""
    return {**model, **flatten(extras)}


def parted(tensors: Tensors, extras: tuple[str, ...]) -> tuple[Tensors, Extras]:
    """The model and the extras of such a record."""
    found: Extras = {extra: {} for extra in extras}
    model: Tensors = {}
    for key, tensor in tensors.items():
        extra, _, name = key.partition("/")
        if name and extra in found:
            found[extra][name] = tensor
        else:
            model[key] = tensor
    return model, found
