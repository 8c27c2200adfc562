"""What goes over the wire in place of a tensor, and what comes out of it."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load, save
from torch import nn

from fedfor.algorithms import ClientOpt, FedFOR, algorithm
from fedfor.errors import ConfigError
from fedfor.protocol import Message, Reply, Server
from fedfor.protocol.compression import FORMS, decode, encode
from fedfor.report.algorithms import cost_row
from fedfor.tensors import Tensors, flatten, nbytes, unflatten

pytestmark = pytest.mark.fast

TINY = 2.0**-126
NUMBERS = st.floats(-1e4, 1e4, width=32)
TENSORS = st.lists(st.lists(NUMBERS, max_size=20), min_size=1, max_size=4).map(
    lambda lists: {f"t{i}": torch.tensor(values) for i, values in enumerate(lists)}
)


def there_and_back(form: str, tensors: Tensors) -> Tensors:
    return decode(form, encode(form, tensors), tensors)


def test_int8_by_hand() -> None:
    """Steps of 0.5 in `w` and of 1/127 in `b`; a half goes to the even neighbour."""
    tensors = {"w": torch.tensor([[63.5, -63.5], [0.7, 0.25]]), "b": torch.tensor(-1.0)}
    sent = encode("int8", tensors)
    assert sent["values"].tolist() == [-127, 127, -127, 1, 0]  # in the order of the names
    assert sent["scales"].tolist() == pytest.approx([1 / 127, 0.5])
    back = decode("int8", sent, tensors)
    assert back["w"].tolist() == [[63.5, -63.5], [0.5, 0.0]]
    assert back["b"].item() == pytest.approx(-1)


def test_sign_by_hand() -> None:
    """Nine bits in two bytes, and the means 1.5 and 2."""
    tensors = {"w": torch.tensor([[1.0, -2.0, 0.0, 3.0]]), "a": torch.tensor([2.0, -2, -2, -2, 2])}
    sent = encode("sign", tensors)
    assert sent["signs"].tolist() == [0b10110001, 0b1]
    assert sent["scales"].tolist() == [2, 1.5]
    back = decode("sign", sent, tensors)
    assert back["w"].tolist() == [[1.5, -1.5, 1.5, 1.5]]
    assert back["a"].tolist() == [2, -2, -2, -2, 2]


def test_float16_by_hand() -> None:
    """A step is 2 between 2048 and 4096, and 2^-24 next to zero."""
    x = {"w": torch.tensor([2049.5, 2**-24, 2**-26])}
    assert there_and_back("float16", x)["w"].tolist() == [2050, 2**-24, 0]


@settings(deadline=None)
@given(TENSORS)
def test_int8_is_within_half_a_step(tensors: Tensors) -> None:
    for name, back in there_and_back("int8", tensors).items():
        if back.numel():
            step = tensors[name].abs().max().double() / 127
            error = (back.double() - tensors[name]).abs().max()
            assert error <= step * (0.5 + 1e-5) + TINY


@settings(deadline=None)
@given(TENSORS)
def test_float16_is_within_half_a_step(tensors: Tensors) -> None:
    for name, back in there_and_back("float16", tensors).items():
        step = torch.clamp(tensors[name].abs().double() * 2**-10, min=2**-24)
        assert ((back.double() - tensors[name]).abs() <= step / 2).all()


@settings(deadline=None)
@given(TENSORS)
def test_signs_are_packed_as_numpy_does(tensors: Tensors) -> None:
    sent = encode("sign", tensors)
    positive = torch.cat([tensors[name] for name in sorted(tensors)]).numpy() >= 0
    assert sent["signs"].tolist() == np.packbits(positive, bitorder="little").tolist()
    back = decode("sign", sent, tensors)
    for name, t in tensors.items():
        mean = t.double().abs().mean() if t.numel() else 0.0
        expected = torch.where(t >= 0, 1.0, -1.0).double() * mean
        torch.testing.assert_close(back[name].double(), expected, rtol=1e-5, atol=TINY)


@pytest.mark.parametrize("form", FORMS)
def test_shapes_and_types_come_back(form: str) -> None:
    tensors = {
        "scalar": torch.tensor(0.5),
        "none": torch.zeros(0, 3),
        "matrix": torch.randn(3, 5).t(),
        "double": torch.randn(4, dtype=torch.float64),
        "short": torch.randn(4).bfloat16(),
    }
    back = there_and_back(form, tensors)
    assert list(back) == list(tensors)
    for name, t in tensors.items():
        assert (back[name].shape, back[name].dtype) == (t.shape, t.dtype)
    signs = [torch.equal(back[n] > 0, tensors[n] > 0) for n in ("scalar", "matrix")]
    assert signs == [True, True]


@pytest.mark.parametrize("form", FORMS)
def test_short_types_are_reckoned_in_float32(form: str) -> None:
    short = {"w": torch.randn(100, generator=torch.Generator().manual_seed(0)).bfloat16()}
    ours, theirs = encode(form, short), encode(form, {"w": short["w"].float()})
    assert all(torch.equal(ours[part], theirs[part]) for part in theirs)


@pytest.mark.parametrize("form", FORMS)
def test_zero_comes_back_as_zero(form: str) -> None:
    tensors = {"zero": torch.zeros(5), "other": torch.tensor([3.0])}
    back = there_and_back(form, tensors)
    assert back["zero"].tolist() == [0] * 5
    assert back["other"].tolist() == pytest.approx([3])


def test_steps_too_small_for_float32_come_back_as_zero() -> None:
    assert there_and_back("int8", {"w": torch.tensor([1e-45, -1e-45])})["w"].tolist() == [0, 0]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("form", FORMS)
def test_what_is_not_finite_stays_so(form: str, bad: float) -> None:
    tensors = {"bad": torch.tensor([1.0, bad, -2.0]), "good": torch.tensor([1.0, -1.0])}
    back = there_and_back(form, tensors)
    assert not torch.isfinite(back["bad"][1])
    assert math.isnan(bad) or back["bad"][1] == bad
    assert torch.isfinite(back["good"]).all()


def test_too_large_for_float16_is_infinite() -> None:
    assert there_and_back("float16", {"w": torch.tensor([-7e4])})["w"].item() == -math.inf


def test_too_large_for_a_scale_is_infinite() -> None:
    large = {"w": torch.tensor([1e300, -1e300], dtype=torch.float64)}
    for form in ("int8", "sign"):
        assert there_and_back(form, large)["w"].tolist() == [math.inf, -math.inf]


@pytest.mark.parametrize("form", FORMS)
def test_no_number_is_asked_for(form: str) -> None:
    """So a GPU is not waited for: tensors without values fail at the first question."""
    tensors = {"w": torch.empty(3, 5, device="meta"), "b": torch.empty((), device="meta")}
    back = there_and_back(form, tensors)
    assert {name: t.shape for name, t in back.items()} == {n: t.shape for n, t in tensors.items()}
    assert all(t.is_meta for t in back.values())


@pytest.mark.parametrize("form", FORMS)
def test_bytes_are_those_of_the_file(form: str) -> None:
    net = nn.Sequential(nn.Linear(7, 5), nn.Linear(5, 3))
    sent = encode(form, dict(net.state_dict()))
    file = save(sent)
    header = int.from_bytes(file[:8], "little")
    assert nbytes(sent) == len(file) - 8 - header
    weights, scales = 7 * 5 + 5 + 5 * 3 + 3, 4 * 4
    told = {"float16": 2 * weights, "int8": weights + scales, "sign": 8 + scales}
    assert nbytes(sent) == told[form]


def second_message(send: str) -> tuple[Server, Message]:
    torch.manual_seed(0)
    server = Server(algorithm("fedfor", send=send), nn.Sequential(nn.Linear(40, 30)), population=2)
    moved = {n: t + torch.randn_like(t) for n, t in server.model.items()}
    server.aggregate([Reply(moved, {}, 1, 1)], 0.1)
    return server, server.message()


@pytest.mark.parametrize("send", ["float32", *FORMS])
def test_a_message_over_the_wire_and_back(send: str) -> None:
    server, message = second_message(send)
    wire = save(flatten({"params": message.params, **message.sent}))
    header = 8 + int.from_bytes(wire[:8], "little")
    assert message.nbytes == len(wire) - header
    assert message.silo_nbytes == nbytes(message.model)
    sent = unflatten(load(wire))
    params = sent.pop("params")
    client = server.algorithm.client
    got = Message.from_wire(message.round, params, {}, sent, client.sent_as, client.difference)
    for name, direction in message.extras["direction"].items():
        assert torch.equal(got.extras["direction"][name], direction)
    assert (got.nbytes, got.silo_nbytes) == (message.nbytes, message.silo_nbytes)


@pytest.mark.parametrize("send", FORMS)
def test_the_server_keeps_the_exact_difference(send: str) -> None:
    exact, _ = second_message("float32")
    server, message = second_message(send)
    for name, direction in exact.client_state["direction"].items():
        assert torch.equal(server.client_state["direction"][name], direction)
        assert not torch.equal(message.extras["direction"][name], direction)
    # A client that still has w(t-2) comes to the same numbers by itself.
    mine = there_and_back(send, exact.client_state["direction"])
    assert all(torch.equal(mine[n], t) for n, t in message.extras["direction"].items())


@pytest.mark.parametrize(("send", "models"), [("float16", 1.5), ("int8", 1.25), ("sign", 1.03125)])
def test_the_table_of_costs_is_what_is_sent(send: str, models: float) -> None:
    server, message = second_message(send)
    down, silo = map(float, cost_row(server.algorithm)[3:5])
    assert down == pytest.approx(models, abs=5e-4)
    assert silo == 1
    scales = 0 if send == "float16" else 8
    assert message.nbytes == pytest.approx(models * nbytes(message.model) + scales, abs=1)


def test_another_form_or_model_than_agreed_is_told() -> None:
    tensors = {"w": torch.ones(5)}
    for form in FORMS:
        for other in FORMS:
            if other != form:
                with pytest.raises(ConfigError, match=rf"sent as '{other}' holds .*, expected"):
                    decode(other, encode(form, tensors), tensors)
        with pytest.raises(ConfigError, match="give server and clients the same algorithm"):
            decode(form, encode(form, tensors), {"w": torch.ones(50)})
    with pytest.raises(ConfigError, match="form cannot be 'int4'; did you mean 'int8'"):
        encode("int4", tensors)


class Misnamed(ClientOpt):
    name = "misnamed"
    down = server_keeps = ("direction",)

    def __init__(self, extra: str, form: str) -> None:
        self.chosen = {extra: form}

    @property
    def sent_as(self) -> dict[str, str]:
        return self.chosen


def test_a_client_opt_is_told_of_forms_that_do_not_exist() -> None:
    with pytest.raises(ConfigError, match="misnamed: sent_as cannot be 'directon'; did you mean"):
        Server(Misnamed("directon", "int8"), nn.Linear(2, 2), population=2)
    with pytest.raises(ConfigError, match=r"sent_as\['direction'\] cannot be 'int4'; did you mean"):
        Server(Misnamed("direction", "int4"), nn.Linear(2, 2), population=2)


def test_fedfor_as_it_is_has_no_form() -> None:
    server, message = second_message("float32")
    assert message.encoded == {}
    assert server.client_state["direction"].keys() == message.extras["direction"].keys()
    for name, direction in message.extras["direction"].items():
        assert direction is server.client_state["direction"][name]
    assert FedFOR(send="int8").sent_as == {"direction": "int8"}
