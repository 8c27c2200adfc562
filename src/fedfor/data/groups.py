from ..errors import ConfigError
from .labelled import DataSplit
from .population import Partition, TestSet, rows_of_domain


class _ByDomain(Partition):
    def tests(self, round: int) -> list[TestSet]:  # noqa: A002
        """Each domain's test set belongs to the client that has this domain."""
        names = self.train.domains
        return [TestSet(t.name, t.samples, owner=names.index(t.name)) for t in super().tests(round)]


def by_domain(split: DataSplit) -> Partition:
    """One client for each domain, tested on its own domain: the paper's covariate shift."""
    train = split.train
    if train.domain is None or split.test.domain is None:
        raise ConfigError(
            f"population.kind 'domains' needs data with domains, and {train.name} has none; "
            "use data 'digit-domains' or an .npz file with domain_train and domain_test"
        )
    if train.domains != split.test.domains:
        raise ConfigError(f"{train.name} and {split.test.name} have different domains")
    return _ByDomain(split, rows_of_domain(train), "each domain needs training samples")
