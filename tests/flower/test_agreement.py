"""Flower's messages carry the simulator's rounds: same model, same records, to the last bit."""

from pathlib import Path
from typing import Any

import pytest
import torch
from flwr.app import ArrayRecord, Context, Message, MessageType, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.serde import recorddict_to_proto
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import fedfor
from fedfor.algorithms import PRESETS, FedFOR
from fedfor.errors import ConfigError
from fedfor.experiments.simulate import History
from fedfor.flower import LocalRound, Strategy, evaluate, train
from fedfor.flower.silo import fingerprint

from .app import SEED, TRAINING, client_app, new_model, population
from .grid import InProcessGrid

ROUNDS, CLIENTS = 3, 3


def model_for(algorithm: fedfor.Algorithm) -> str:
    return "cnn-bn" if algorithm.sharing != "everything" else "mlp"


def simulated(algorithm: fedfor.Algorithm, clients: int = CLIENTS, rounds: int = ROUNDS) -> History:
    model = new_model(model_for(algorithm))
    return fedfor.simulate(
        algorithm,
        population(clients),
        model,
        rounds=rounds,
        cohort=clients,
        seed=SEED,
        training=TRAINING,
        engine="serial",
    )


def federated(
    algorithm: fedfor.Algorithm, grid: InProcessGrid, rounds: int = ROUNDS, **options: object
) -> tuple[Strategy, dict[str, torch.Tensor]]:
    nodes = len(grid.contexts)
    strategy = Strategy(
        algorithm,
        new_model(model_for(algorithm)),
        min_available_nodes=nodes,
        min_train_nodes=nodes,
        **options,  # type: ignore[arg-type]
    )
    result = strategy.start(grid, num_rounds=rounds)
    return strategy, result.arrays.to_torch_state_dict()


def assert_same(got: dict[str, torch.Tensor], history: History) -> None:
    expected = history.model.state_dict()
    for name, tensor in got.items():
        assert torch.equal(tensor, expected[name]), name


@pytest.mark.parametrize("name", [*PRESETS, "fedfor+fedadam+fedbn"])
def test_every_algorithm_is_the_simulators(name: str) -> None:
    algorithm = fedfor.algorithm(name)
    grid = InProcessGrid(client_app(CLIENTS, model_for(algorithm)), CLIENTS)
    strategy, got = federated(algorithm, grid)
    history = simulated(algorithm)
    assert_same(got, history)
    for ours, theirs in zip(strategy.records, history.records, strict=True):
        both = theirs.keys() - {"accuracy", "loss", "classes"}  # which a client does not tell
        assert {"disagreement", "cosine", "opposing"} <= both
        assert {k: ours[k] for k in both} == {k: theirs[k] for k in both}
        assert ours["accuracy"] == pytest.approx(theirs["accuracy"])
        assert ours["loss"] == pytest.approx(theirs["loss"])


@pytest.mark.parametrize("send", ["float32", "float16", "int8", "sign"])
def test_both_forms_give_the_same_model_in_the_bytes_predicted(send: str) -> None:
    algorithm = fedfor.algorithm("fedfor", send=send)
    history = simulated(algorithm)
    for form in ("cross-device", "cross-silo"):
        grid = InProcessGrid(client_app(CLIENTS), CLIENTS)
        strategy, got = federated(algorithm, grid, form=form)
        assert_same(got, history)
        for ours, theirs in zip(strategy.records, history.records, strict=True):
            for key in ("down_cross_device", "down_cross_silo", "up"):
                assert ours[key] == theirs[key]
        kinds = [set(m.content.array_records) for m in grid.asked if is_train(m)]
        later = {"arrays", "extras"} if form == "cross-device" else {"arrays", "difference"}
        assert kinds == [{"arrays"}] * CLIENTS + [later] * CLIENTS * (ROUNDS - 1)


def is_train(message: Message) -> bool:
    return message.metadata.message_type == MessageType.TRAIN


def test_the_bytes_counted_are_those_of_the_messages() -> None:
    grid = InProcessGrid(client_app(CLIENTS), CLIENTS)
    strategy, _ = federated(fedfor.algorithm("scaffold"), grid, fraction_evaluate=0)
    for t, record in enumerate(strategy.records):
        asked, replies = (ms[t * CLIENTS : (t + 1) * CLIENTS] for ms in (grid.asked, grid.replies))
        assert record["down_cross_device"] == sum(map(_numbers, asked))
        assert record["up"] == sum(map(_numbers, replies))
        assert record["wire_down"] == sum(map(_packed, asked))
        assert record["wire_up"] == sum(map(_packed, replies))


def test_what_was_sent_in_vain_is_counted_too() -> None:
    """A reply without an answer to it, a rejected one, and a client's word that it has no model."""
    grid = InProcessGrid(client_app(CLIENTS), CLIENTS)

    def faulty(node: int, reply: Message) -> Message:
        if len(grid.asked) == CLIENTS:
            grid.forget(101)
        if node == 102 and len(grid.asked) > CLIENTS:
            reply.content["metrics"] = MetricRecord({"num-examples": 0})
        return reply

    grid.tamper = faulty
    algorithm = fedfor.algorithm("fedfor")
    strategy, _ = federated(algorithm, grid, rounds=2, form="cross-silo", fraction_evaluate=0)
    asked, replies = grid.asked[CLIENTS:], grid.replies[CLIENTS:]
    assert len(asked) == len(replies) == CLIENTS + 1
    record = strategy.records[1]
    assert record["clients"] == CLIENTS - 1
    assert record["down_cross_silo"] == sum(map(_numbers, asked))
    assert record["up"] == sum(map(_numbers, replies))
    assert record["wire_down"] == sum(map(_packed, asked))
    assert record["wire_up"] == sum(map(_packed, replies))


def test_the_other_form_is_worked_out_when_cohorts_change() -> None:
    """Half of six nodes each round: some were there in the round before, some were not."""
    records = []
    for form in ("cross-device", "cross-silo"):
        strategy = Strategy(
            "fedfor", new_model(), form=form, fraction_train=0.5, min_available_nodes=6,
            fraction_evaluate=0,
        )  # fmt: skip
        strategy.start(InProcessGrid(client_app(6), 6), num_rounds=6)
        records.append([(r["down_cross_device"], r["down_cross_silo"]) for r in strategy.records])
    assert records[0] == records[1]
    assert len(set(records[0])) > 2


def _numbers(message: Message) -> int:
    """Bytes of all arrays in a message, from numpy's own reading of them."""
    records = message.content.array_records.values()
    return sum(array.numpy().nbytes for record in records for array in record.values())


def _packed(message: Message) -> int:
    return len(recorddict_to_proto(message.content).SerializeToString())


def test_a_fingerprint_is_of_names_types_shapes_and_numbers() -> None:
    model = {"w": torch.zeros(2, 3), "b": torch.zeros(3)}
    others = [
        {"v": torch.zeros(2, 3), "b": torch.zeros(3)},
        {"w": torch.zeros(3, 2), "b": torch.zeros(3)},
        {"w": torch.zeros(2, 3, dtype=torch.int32), "b": torch.zeros(3)},
        {"w": torch.zeros(2, 3), "b": torch.ones(3)},
    ]
    assert len({fingerprint(m) for m in (model, *others)}) == 5
    assert fingerprint(model) == fingerprint({n: t.clone() for n, t in model.items()})


def test_fedfor_keeps_nothing_on_clients_and_others_keep_what_they_say() -> None:
    for name, stateless in (("fedfor", True), ("fedprox", True), ("feddyn", False)):
        grid = InProcessGrid(client_app(CLIENTS), CLIENTS)
        strategy, _ = federated(fedfor.algorithm(name), grid)
        assert all((len(c.state) == 0) == stateless for c in grid.contexts.values())
        assert (strategy.records[-1]["clients_with_state"] == 0) == stateless


def test_a_silo_that_lost_the_model_gets_all_of_it() -> None:
    algorithm = fedfor.algorithm("fedfor")
    grid = InProcessGrid(client_app(CLIENTS), CLIENTS)
    seen = 0

    def restart(node: int, reply: Message) -> Message:
        nonlocal seen
        seen += 1
        if seen == CLIENTS:  # after the first round, before the second
            grid.forget(101)
        return reply

    grid.tamper = restart
    strategy, got = federated(algorithm, grid, form="cross-silo", fraction_evaluate=0)
    assert_same(got, simulated(algorithm))
    second = [m for m in grid.asked if m.content["config"]["fedfor-round"] == 2]  # type: ignore[index]
    assert [m.metadata.dst_node_id for m in second] == [100, 101, 102, 101]
    assert "difference" not in second[-1].content.array_records
    assert strategy.records[1]["rejected"] == []
    assert strategy.records[1]["clients"] == CLIENTS


def test_a_damaged_difference_is_noticed() -> None:
    """The hash says no to a model that is not the server's, whatever the shapes say."""
    algorithm = fedfor.algorithm("fedfor")
    grid = InProcessGrid(client_app(CLIENTS), CLIENTS)

    def scribble(node: int, reply: Message) -> Message:
        kept = grid.contexts[node].state.array_records.get("fedfor-model")
        if node == 102 and kept is not None:
            other = {n: t + 1 for n, t in kept.to_torch_state_dict().items()}
            grid.contexts[node].state["fedfor-model"] = ArrayRecord(other)
        return reply

    grid.tamper = scribble
    _, got = federated(algorithm, grid, form="cross-silo")
    assert_same(got, simulated(algorithm))


def test_ones_own_loop_in_three_lines() -> None:
    """With the batches of the simulator, in a loop of one's own."""
    people = population(CLIENTS)
    app = ClientApp()

    @app.train()
    def own_loop(message: Message, context: Context) -> Message:
        from fedfor.engines.batches import plan_batches
        from fedfor.randomness import generator

        k, t = int(context.node_config["partition-id"]), message.content["config"]["server-round"]
        samples, model = people.samples(k, 1), new_model()
        batches = plan_batches(len(samples), 5, 2, generator(SEED, "batches", t, k))  # type: ignore[arg-type]
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

        local = LocalRound(message, context, model, optimizer, steps=len(batches))
        model.train()
        for batch in batches:
            x, y = samples.batch(batch)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        return local.reply(examples=len(samples), metrics={"my-metric": 2.0})

    for form in ("cross-device", "cross-silo"):
        grid = InProcessGrid(app, CLIENTS)
        strategy, got = federated(fedfor.algorithm("fedfor"), grid, form=form, fraction_evaluate=0)
        assert_same(got, simulated(fedfor.algorithm("fedfor")))
        assert strategy.records[0]["local_steps"] == 2 * 4


def test_a_data_loader_is_gone_through_once_an_epoch() -> None:
    people = population(CLIENTS)
    app = ClientApp()

    @app.train()
    def by_loader(message: Message, context: Context) -> Message:
        x, y = people.samples(int(context.node_config["partition-id"]), 1).all()
        loader = DataLoader(TensorDataset(x, y), batch_size=5, shuffle=True)
        return train(message, context, new_model(), loader, epochs=2, lr=0.05)

    @app.evaluate()
    def tested(message: Message, context: Context) -> Message:
        test = people.split.test
        loader = DataLoader(TensorDataset(test.x, test.y), batch_size=7)
        return evaluate(message, context, new_model(), loader, name="all")

    for name in ("fedfor", "fedcurv"):
        grid = InProcessGrid(app, CLIENTS)
        strategy, got = federated(fedfor.algorithm(name), grid, rounds=8)
        assert grid.replies[0].content["metrics"]["num-examples"] == 20
        _, same = federated(fedfor.algorithm(name), InProcessGrid(app, CLIENTS), rounds=8)
        assert all(torch.equal(got[n], same[n]) for n in got)  # shuffled by the seed
        assert strategy.records[0]["local_steps"] == 8
        assert strategy.records[0]["clients"] == CLIENTS
        assert max(r["accuracy"] for r in strategy.records) > 0.6  # of three classes
        x, y = people.split.test.all_rows().all()
        model = new_model()
        model.load_state_dict(got)
        right = float((model(x).argmax(1) == y).float().mean())
        assert strategy.records[-1]["accuracy"] == pytest.approx(right)


class _Endless(IterableDataset):  # type: ignore[type-arg]
    def __iter__(self) -> Any:
        return iter([(torch.zeros(1, 8, 8), 0)] * 4)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"x": torch.zeros(3)}, "the data must be a pair of tensors"),
        ([torch.zeros(2)], "the data must be a pair of tensors"),
        (DataLoader([{"x": 1.0}, {"x": 2.0}]), "a batch of the DataLoader must be a pair"),
        (DataLoader([]), "the DataLoader gives no batches"),
        (DataLoader(_Endless()), "the DataLoader does not know its length"),
    ],
)
def test_odd_data_get_a_sentence(data: Any, sentence: str) -> None:
    app = ClientApp()

    @app.train()
    def odd(message: Message, context: Context) -> Message:
        return train(message, context, new_model(), data, lr=0.05)

    with pytest.raises(fedfor.FedforError, match=sentence):
        federated(fedfor.algorithm("fedfor"), InProcessGrid(app, CLIENTS), retries=0)


def test_ones_own_algorithm_must_be_given_to_both_sides() -> None:
    class Mine(FedFOR):
        pass

    mine = fedfor.Algorithm(client=Mine())
    grid = InProcessGrid(client_app(CLIENTS, algorithm=mine), CLIENTS)
    _, got = federated(mine, grid)
    assert_same(got, simulated(fedfor.algorithm("fedfor")))
    grid = InProcessGrid(client_app(CLIENTS), CLIENTS)
    with pytest.raises(fedfor.FedforError, match="not one of fedfor's own; pass it to this client"):
        federated(mine, grid, retries=0)
    grid = InProcessGrid(client_app(CLIENTS, algorithm="fedprox"), CLIENTS)
    with pytest.raises(fedfor.FedforError, match="give both the same"):
        federated(mine, grid, retries=0)


def test_nodes_are_drawn_by_the_seed() -> None:
    drawn = []
    for seed, backwards in ((0, False), (0, True), (1, False)):
        grid = InProcessGrid(client_app(8), 8)
        if backwards:  # a SuperLink may name them in any order
            grid.contexts = dict(reversed(grid.contexts.items()))
        strategy = Strategy(
            "fedavg", new_model(), seed=seed, fraction_train=0.5, fraction_evaluate=0
        )
        strategy.start(grid, num_rounds=3)
        drawn.append([m.metadata.dst_node_id for m in grid.asked])
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(drawn[0]) == 12
    assert drawn[0][:4] != drawn[0][4:8]


def test_a_foreign_message_gets_a_sentence() -> None:
    grid = InProcessGrid(client_app(1), 1)
    message = Message(RecordDict({"arrays": ArrayRecord()}), 100, MessageType.TRAIN)
    (reply,) = grid.send_and_receive([message])
    assert "does not come from a fedfor strategy" in reply.error.reason


def client_app_with(model: nn.Module) -> ClientApp:
    app, data = ClientApp(), population(2).samples(0, 1)

    @app.train()
    def own(message: Message, context: Context) -> Message:
        return train(message, context, model, data, training=TRAINING)

    return app


def test_models_that_do_not_fit_get_a_sentence(tmp_path: Path) -> None:
    strategy = Strategy("fedavg", new_model("cnn"), retries=0)
    with pytest.raises(fedfor.FedforError, match="build the same model on both sides"):
        strategy.start(InProcessGrid(client_app(2), 2), num_rounds=1)
    smaller = new_model()
    smaller[-1].requires_grad_(False)  # type: ignore[operator]
    with pytest.raises(fedfor.FedforError, match="with the same parts frozen"):
        Strategy("fedavg", new_model(), retries=0).start(
            InProcessGrid(client_app_with(smaller), 2), num_rounds=1
        )
    other = ArrayRecord(new_model("cnn").state_dict())
    with pytest.raises(ConfigError, match="do not fit the strategy's model"):
        Strategy("fedavg", new_model()).start(InProcessGrid(client_app(2), 2), other)
    half = new_model().to(torch.bfloat16)
    with pytest.raises(ConfigError, match="keep the model's weights in float32"):
        Strategy("fedavg", half).start(InProcessGrid(client_app(2), 2), num_rounds=1)
