import warnings

import pytest

from fedfor.algorithms import PRESETS, Algorithm, FedAdam, FedFOR, algorithm, settings
from fedfor.algorithms.fedfor import _warn_that_equation_explodes
from fedfor.errors import ConfigError

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_builds(name: str) -> None:
    assert isinstance(algorithm(name), Algorithm)


def test_rows_of_the_paper_are_there() -> None:
    wanted = (
        "fedavg fedprox fedcurv feddyn fedpd scaffold fedbn fedavgm slowmo fedadagrad fedadam "
        "fedyogi fedfor fedfor-paper fedprox+fedbn feddyn+fedbn fedcurv+fedbn fedfor+fedbn"
    )
    assert set(wanted.split()) <= set(PRESETS)


def test_the_published_fedfor() -> None:
    assert algorithm("fedfor-paper").client == FedFOR(alpha=5.0, strength="loss", clip=True)
    assert algorithm("fedfor").client == FedFOR(alpha=4.0, strength="step", clip=True)


def test_parts_combine() -> None:
    built = algorithm("fedfor+fedadam+fedbn", alpha=3, server={"lr": 0.1}, weighting="examples")
    assert built.client == FedFOR(alpha=3)
    assert built.server == FedAdam(lr=0.1)
    assert (built.sharing, built.weighting) == ("all-but-batch-norm", "examples")
    assert built.label == "fedfor+fedadam+fedbn"
    assert not built.stateless
    assert algorithm("fedfor+fedadam").stateless


def test_a_server_may_be_named_apart() -> None:
    assert algorithm("fedfor", server="fedadam") == algorithm("fedfor+fedadam")
    assert algorithm("fedfor", server={"name": "fedadam", "lr": 2}).server == FedAdam(lr=2)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ({"name": "fedfro"}, "'fedfro' is not known; did you mean 'fedfor'"),
        ({"name": "fedfor+fedprox"}, "'fedprox' is a second choice of client"),
        ({"name": "fedfor", "alpha": -1}, "fedfor: alpha must be 0 or more (got -1)"),
        ({"name": "fedfor", "alpha": "five"}, "alpha must be a number"),
        ({"name": "fedfor", "alpha": float("nan")}, "alpha must be a finite number"),
        ({"name": "fedfor", "alpha": True}, "alpha must be a number"),
        ({"name": "fedfor", "clip": "no"}, "clip must be true or false"),
        ({"name": "fedfor", "strength": "stop"}, "did you mean 'step'"),
        ({"name": "fedfor", "send": "int4"}, "fedfor: send cannot be 'int4'; did you mean 'int8'"),
        ({"name": "fedfor", "alfa": 1}, "fedfor has no such setting; did you mean 'alpha'"),
        ({"name": "fedavg", "alpha": 1}, "fedavg has no such setting; it has no settings"),
        ({"name": "fedprox", "mu": -0.1}, "mu must be 0 or more"),
        ({"name": "feddyn", "alpha": 0}, "alpha must be greater than 0"),
        ({"name": "fedavgm", "server": {"momentum": 1}}, "momentum must be less than 1"),
        ({"name": "fedadam", "server": {"beta3": 1}}, "algorithm.server.beta3: fedadam has no"),
        ({"name": "fedavg", "server": "fedprox"}, "'fedprox' is not a ServerOpt"),
        ({"name": "fedavg", "server": 3}, "algorithm.server must be a name or a table"),
        ({"name": "fedavg", "sharing": "nothing"}, "sharing cannot be 'nothing'"),
        ({"name": "fedavg", "weighting": "size"}, "weighting cannot be 'size'"),
        ({"name": "no.such.module:Thing"}, "cannot import 'no.such.module'"),
        ({"name": "fedfor.algorithms:Thing"}, "has no 'Thing'"),
        ({"name": "fedfor.algorithms:settings"}, "neither a ClientOpt nor a ServerOpt"),
    ],
)
def test_mistakes_are_told(call: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError) as error:
        algorithm(**call)  # type: ignore[arg-type]
    assert words in str(error.value)


def test_equation_warns_once_that_it_explodes() -> None:
    _warn_that_equation_explodes.cache_clear()
    with pytest.warns(UserWarning, match=r"tends to explode; use strength = 'step'"):
        FedFOR(alpha=5, strength="equation")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FedFOR(alpha=7, strength="equation")  # said already
        FedFOR(alpha=0.05, strength="equation")


def test_settings_tell_everything() -> None:
    assert settings(FedFOR()) == {
        "alpha": 4.0,
        "strength": "step",
        "clip": True,
        "send": "float32",
    }
