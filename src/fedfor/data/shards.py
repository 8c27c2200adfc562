import numpy as np

from ..errors import require_number
from ..randomness import generator
from .labelled import DataSplit
from .population import Partition, require_enough


def shards(split: DataSplit, clients: int, seed: int, shards_per_client: int = 2) -> Partition:
    """Sort by label, cut into equal shards, deal out some to each client (McMahan et al., 2017)."""
    require_number("population", "shards_per_client", shards_per_client, least=1)
    require_enough(split, clients)
    by_label = np.argsort(split.train.y.numpy(), kind="stable")
    pieces = np.array_split(by_label, clients * shards_per_client)
    dealt = generator(seed, "shards").permutation(len(pieces)).reshape(clients, shards_per_client)
    rows = [np.concatenate([pieces[p] for p in mine]) for mine in dealt]
    return Partition(split, rows)
