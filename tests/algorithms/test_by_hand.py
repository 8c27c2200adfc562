"""One or two rounds of each ClientOpt with numbers worked out by hand: see scalar.py."""

import pytest

from fedfor.algorithms import (
    Algorithm,
    Average,
    ClientOpt,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedCurv,
    FedDyn,
    FedFOR,
    FedPD,
    FedProx,
    Scaffold,
)

from .scalar import Federation

pytestmark = pytest.mark.fast


def federation(client: ClientOpt, **other: object) -> Federation:
    return Federation(Algorithm(client=client, **other))  # type: ignore[arg-type]


def test_fedavg() -> None:
    f = federation(FedAvg())
    # A: 1 - 0.1 (1 - 3) = 1.2,   1.2 - 0.1 (1.2 - 3) = 1.38.   B: 1 -> 0.9 -> 0.81.
    assert f.round() == pytest.approx((1.38 + 0.81) / 2, abs=1e-12)
    assert f.after_training == pytest.approx({"A": 1.38, "B": 0.81}, abs=1e-12)


def test_average_by_number_of_examples() -> None:
    f = federation(FedAvg(), weighting="examples")
    assert f.round(examples=(3, 1)) == pytest.approx((3 * 1.38 + 0.81) / 4, abs=1e-12)


def test_server_learning_rate_goes_part_of_the_way() -> None:
    f = federation(FedAvg(), server=Average(lr=0.5))
    assert f.round() == pytest.approx(1 + 0.5 * 0.095, abs=1e-12)


def test_fedavgm() -> None:
    f = federation(FedAvg(), server=FedAvgM(momentum=0.5))
    assert f.round() == pytest.approx(1.095, abs=1e-12)  # v = 1 - 1.095 = -0.095
    # A 1.2855, 1.45695; B 0.9855, 0.88695; mean 1.17195. v = -0.0475 + (1.095 - 1.17195).
    assert f.round() == pytest.approx(1.095 + 0.12445, abs=1e-12)


def test_fedadam() -> None:
    f = federation(FedAvg(), server=FedAdam(lr=0.1, beta1=0.9, beta2=0.99, tau=0.01))
    # Delta = 0.095; m = 0.0095; v = 0.99 * 0.0001 + 0.01 * 0.009025 = 0.00018925.
    assert f.round() == pytest.approx(1 + 0.1 * 0.0095 / (0.00018925**0.5 + 0.01), abs=1e-12)


def test_fedprox() -> None:
    f = federation(FedProx(mu=1.0))
    # A: 1.2, then the gradient is (1.2 - 3) + (1.2 - 1) = -1.6: 1.36.
    # B: 0.9, then 0.9 + (0.9 - 1) = 0.8: 0.82.
    assert f.round() == pytest.approx(1.09, abs=1e-12)
    assert f.after_training == pytest.approx({"A": 1.36, "B": 0.82}, abs=1e-12)


@pytest.mark.parametrize(
    ("strength", "alpha"),
    # c = 0.5 in each reading: alpha, alpha/0.1 and alpha/(0.1 * 2).
    [("loss", 0.5), ("equation", 0.05), ("step", 0.1)],
)
def test_fedfor(strength: str, alpha: float) -> None:
    f = federation(FedFOR(alpha=alpha, strength=strength))  # type: ignore[arg-type]
    # Round 1 is FedAvg's: 1.095. So d = 1 - 1.095 = -0.095: the global model moved up.
    assert f.round() == pytest.approx(1.095, abs=1e-12)
    assert f.server.message().extras["direction"]["w"].item() == pytest.approx(-0.095, abs=1e-12)
    # A moves up as well, so is left alone: 1.095 + 0.1905 = 1.2855, + 0.17145 = 1.45695.
    # B moves down. First step, nothing yet: 1.095 - 0.1095 = 0.9855. Then it has moved against
    # the global update: its gradient is 0.9855 + 0.5 (-0.095) = 0.938, so 0.8917.
    assert f.round() == pytest.approx((1.45695 + 0.8917) / 2, abs=1e-12)
    assert f.after_training == pytest.approx({"A": 1.45695, "B": 0.8917}, abs=1e-12)


def test_fedfor_unclipped() -> None:
    f = federation(FedFOR(alpha=0.5, strength="loss", clip=False))
    f.round()
    f.round()
    # c d = -0.0475 at every step and for both.
    # A: 1.095 + 0.1 (1.905 + 0.0475) = 1.29025, + 0.1 (1.70975 + 0.0475) = 1.465975.
    # B: 1.095 - 0.1 (1.095 - 0.0475) = 0.99025, - 0.1 (0.99025 - 0.0475) = 0.895975.
    assert f.after_training == pytest.approx({"A": 1.465975, "B": 0.895975}, abs=1e-12)


def test_fedcurv() -> None:
    f = federation(FedCurv(lam=0.5))
    f.round()
    # Fisher: A (1.38 - 3)^2 = 2.6244 at 1.38, B 0.81^2 = 0.6561 at 0.81. In round 2 each meets the
    # other's: A adds 0.6561 w - 0.531441, B adds 2.6244 w - 3.621672.
    # A: 1.095 - 0.1 (-1.905 + 0.1869885) = 1.26680115, then gradient -1.433491615485.
    # B: 1.095 - 0.1 (1.095 - 0.747954) = 1.0602954, then gradient 0.22126264776.
    f.round()
    expected = {"A": 1.4101503115485, "B": 1.038169135224}
    assert f.after_training == pytest.approx(expected, abs=1e-12)


def test_fedcurv_takes_out_its_own_share_only_if_it_was_there_last_round() -> None:
    f = federation(FedCurv(lam=0.5))
    f.round("A")  # A keeps its share of round 1
    f.round("B")
    start = f.server.params["w"].item()
    f.round("A")  # the sums are B's of round 2: nothing of A's is in them to take out
    b = f.kept["B"]
    assert b is not None
    fisher, fisher_w = (b.extras[e]["w"].item() for e in ("own_fisher", "own_fisher_w"))
    w = start
    for _ in range(2):
        w -= 0.1 * ((w - 3) + 2 * 0.5 * (fisher * w - fisher_w))
    assert f.after_training["A"] == pytest.approx(w, abs=1e-12)


def test_feddyn() -> None:
    f = federation(FedDyn(alpha=1.0))
    # New clients have h_k = 0, so train as FedProx: A 1.36, B 0.82, mean 1.09. Then h_A = -0.36,
    # h_B = 0.18, h = -(0.36 - 0.18)/2 = -0.09, and w = 1.09 + 0.09.
    assert f.round() == pytest.approx(1.18, abs=1e-12)
    # A adds 0.36 + (w - 1.18): 1.18 + 0.146 = 1.326, + 0.1168 = 1.4428.
    # B adds -0.18 + (w - 1.18): 1.18 - 0.1 = 1.08, - 0.08 = 1.
    # Mean 1.2214; h = -0.09 - (0.2628 - 0.18)/2 = -0.1314.
    assert f.round() == pytest.approx(1.2214 + 0.1314, abs=1e-12)
    assert f.after_training == pytest.approx({"A": 1.4428, "B": 1.0}, abs=1e-12)


def test_feddyn_counts_the_whole_population() -> None:
    f = Federation(Algorithm(client=FedDyn(alpha=1.0)), population=20)
    # h = -(0.36 - 0.18)/20 = -0.009.
    assert f.round() == pytest.approx(1.09 + 0.009, abs=1e-12)


def test_fedpd() -> None:
    f = federation(FedPD(eta=1.0))
    # As FedProx: A 1.36, B 0.82. Then lambda_A = 0.36 and A sends 1.72; lambda_B = -0.18, 0.64.
    assert f.round() == pytest.approx((1.72 + 0.64) / 2, abs=1e-12)
    assert f.after_training == pytest.approx({"A": 1.36, "B": 0.82}, abs=1e-12)
    # A adds 0.36 + (w - 1.18): 1.4428; lambda_A = 0.36 + 0.2628, sends 2.0656.
    # B adds -0.18 + (w - 1.18): 1; lambda_B = -0.18 - 0.18, sends 0.64.
    assert f.round() == pytest.approx((2.0656 + 0.64) / 2, abs=1e-12)


def test_scaffold() -> None:
    f = federation(Scaffold())
    # As FedAvg: 1.095. c_A = (1 - 1.38)/0.2 = -1.9, c_B = 0.95, c = -0.475.
    assert f.round() == pytest.approx(1.095, abs=1e-12)
    assert f.server.message().extras["control"]["w"].item() == pytest.approx(-0.475, abs=1e-12)
    # A adds -0.475 + 1.9 = 1.425: 1.095 + 0.048 = 1.143, + 0.0432 = 1.1862.
    # B adds -0.475 - 0.95 = -1.425: 1.095 + 0.033 = 1.128, + 0.0297 = 1.1577.
    assert f.round() == pytest.approx((1.1862 + 1.1577) / 2, abs=1e-12)
    a = f.kept["A"]
    assert a is not None
    # c_A <- -1.9 + 0.475 + (1.095 - 1.1862)/0.2
    assert a.extras["own_control"]["w"].item() == pytest.approx(-1.881, abs=1e-12)


def test_scaffold_counts_the_whole_population() -> None:
    f = Federation(Algorithm(client=Scaffold()), population=20)
    f.round()
    assert f.server.message().extras["control"]["w"].item() == pytest.approx(-0.0475, abs=1e-12)
