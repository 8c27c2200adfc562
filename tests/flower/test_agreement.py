"""Flower's messages carry the simulator's rounds: same model, same records, to the last bit."""

from pathlib import Path

import pytest
import torch
from flwr.app import ArrayRecord, Context, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import fedfor
from fedfor.algorithms import PRESETS, FedFOR
from fedfor.errors import ConfigError
from fedfor.experiments.simulate import History
from fedfor.flower import LocalRound, Strategy, evaluate, train

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
        both = theirs.keys() - {"accuracy", "loss"}
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
    asked, replies = ([_numbers(m) for m in ms] for ms in (grid.asked, grid.replies))
    for t, record in enumerate(strategy.records):
        mine = slice(t * CLIENTS, (t + 1) * CLIENTS)
        assert record["down_cross_device"] == sum(asked[mine])
        assert record["up"] == sum(replies[mine])
        assert record["wire_down"] > record["down_cross_device"]
        assert record["wire_up"] > record["up"]


def _numbers(message: Message) -> int:
    """Bytes of all arrays in a message, from numpy's own reading of them."""
    records = message.content.array_records.values()
    return sum(array.numpy().nbytes for record in records for array in record.values())


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
        strategy, got = federated(fedfor.algorithm(name), InProcessGrid(app, CLIENTS), rounds=8)
        _, same = federated(fedfor.algorithm(name), InProcessGrid(app, CLIENTS), rounds=8)
        assert all(torch.equal(got[n], same[n]) for n in got)  # shuffled by the seed
        assert strategy.records[0]["local_steps"] == 8
        assert max(r["accuracy"] for r in strategy.records) > 0.6  # of three classes
        x, y = people.split.test.all_rows().all()
        model = new_model()
        model.load_state_dict(got)
        right = float((model(x).argmax(1) == y).float().mean())
        assert strategy.records[-1]["accuracy"] == pytest.approx(right)


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
    for seed in (0, 0, 1):
        grid = InProcessGrid(client_app(8), 8)
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


def test_models_that_do_not_fit_get_a_sentence(tmp_path: Path) -> None:
    strategy = Strategy("fedavg", new_model("cnn"), retries=0)
    with pytest.raises(fedfor.FedforError, match="build the same model on both sides"):
        strategy.start(InProcessGrid(client_app(2), 2), num_rounds=1)
    other = ArrayRecord(new_model("cnn").state_dict())
    with pytest.raises(ConfigError, match="do not fit the strategy's model"):
        Strategy("fedavg", new_model()).start(InProcessGrid(client_app(2), 2), other)
    half = new_model().to(torch.bfloat16)
    with pytest.raises(ConfigError, match="keep the model's weights in float32"):
        Strategy("fedavg", half).start(InProcessGrid(client_app(2), 2), num_rounds=1)
