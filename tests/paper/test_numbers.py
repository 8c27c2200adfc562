"""The paper's numbers in the package, against some copied from its tables by hand."""

import pytest

from fedfor.paper.numbers import Reported, reported, tables

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("table", "method", "epochs", "metric", "up_to", "expected"),
    [
        ("prior_shift_cifar10", "FedAvg", 1, "best_half", 100, Reported(39.85, 1.02)),
        ("prior_shift_cifar10", "FedFOR", 8, "best", 100, Reported(70.93, 0.94)),
        ("prior_shift_cifar10", "FedCurv", 16, "best_half", 25, Reported(50.71, 2.59)),
        ("covariate_shift_digits", "FedDyn", 16, "best", 25, Reported(84.95, 0.30)),
        ("covariate_shift_digits", "FedFOR", 4, "rounds_to_target", 50, Reported(4)),
        ("covariate_shift_domainnet", "FedFOR", 16, "rounds_to_target", 50, Reported(13)),
        ("covariate_shift_domainnet", "FedBN", 2, "best", 200, Reported(49.04, 1.25)),
        ("concept_shift_domainnet", "FedFOR", 16, "mean_over_rounds", 200, Reported(49.83)),
    ],
)
def test_a_cell(
    table: str, method: str, epochs: int, metric: str, up_to: int, expected: Reported
) -> None:
    assert reported(table, method, epochs, metric, up_to) == expected


def test_every_table_is_whole() -> None:
    for name, table in tables().items():
        if name == "source":
            continue
        for method, cells in table["methods"].items():
            assert [cell["local_epochs"] for cell in cells] == [1, 2, 4, 8, 16], (name, method)


def test_it_is_silent_where_the_paper_is() -> None:
    table = "prior_shift_cifar10"
    assert reported(table, "FedAvgM", 1, "best", 200) is None
    assert reported(table, "FedAvg", 3, "best", 200) is None
    assert reported(table, "FedAvg", 1, "rounds_to_target", 200) is None
    assert reported(table, "FedAvg", 1, "best", 20) is None  # not a round that it reports
    assert reported("concept_shift_domainnet", "FedCurv", 1, "mean_over_rounds", 200) is None
