"""FedAvg in pfl-research 0.6, as fast as it fairly goes: each user's batches are cut once and kept,
and nothing is evaluated after the first round, which pfl always evaluates."""

import sys
from collections.abc import Callable, Sequence

import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByUser
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn


class WithLoss(nn.Module):
    """pfl wants a model that knows its loss; it asks for metrics only where it evaluates."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        return nn.functional.cross_entropy(self.net(x), y)

    def metrics(self, x: Tensor, y: Tensor) -> dict[str, float]:
        return {}


class Call(TrainingProcessCallback):
    def __init__(self, function: Callable[[], None]) -> None:
        self.function = function

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: PyTorchModel, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        self.function()
        return False, Metrics()


class PflFederation:
    """Can be asked for more rounds again and again. The device is that of PFL_PYTORCH_DEVICE."""

    def __init__(
        self,
        net: nn.Module,
        users: Sequence[tuple[Tensor, Tensor]],
        sampler: str,
        *,
        cohort: int,
        batch_size: int,
        lr: float,
        amp: torch.dtype | None = None,
    ) -> None:
        self.net, self.cohort, self.done = net, cohort, 0
        model = WithLoss(net)
        self.model = PyTorchModel(
            model,
            local_optimizer_create=torch.optim.SGD,
            central_optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
            amp_dtype=amp,
        )
        data = FederatedDataset(
            [Dataset(user) for user in users].__getitem__,
            get_user_sampler(sampler, list(range(len(users)))),
        )
        self.backend = SimulatedBackend(data, None, [WeightByUser()])
        self.algorithm = FederatedAveraging()
        self.training = NNTrainHyperParams(
            local_num_epochs=1, local_learning_rate=lr, local_batch_size=batch_size
        )

    def run(self, rounds: int, on_round: Callable[[], None] = lambda: None) -> None:
        self.net.train()
        self.done += rounds
        parameters = NNAlgorithmParams(
            central_num_iterations=self.done,
            evaluation_frequency=sys.maxsize,
            train_cohort_size=self.cohort,
            val_cohort_size=None,
        )
        self.algorithm.run(
            parameters,
            self.backend,
            self.model,
            self.training,
            callbacks=[Call(on_round)],
            send_metrics_to_platform=False,
        )
