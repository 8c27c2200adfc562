"""Run what a folder's config says, from its last checkpoint to the end."""

import hashlib
import time
import warnings
from collections.abc import Callable

import torch

from ..engines.names import RAY, is_ray
from ..errors import DivergedError, FolderError
from ..tensors import Tensors
from .build import Shared, Where, build_simulation
from .cohort import write_cohort
from .config import RunConfig
from .folder import Checkpoint, RunFolder, locked
from .metrics import summarise
from .simulation import Record, Simulation
from .store import DiskStore, MemoryStore, Store
from .work import Steps, drive

OnRound = Callable[[Record], None]


def start_run(folder: RunFolder, config: RunConfig) -> None:
    """Make a folder for a new run, once everything that can be checked beforehand was."""
    build_simulation(config)
    folder.create(config)


def run_in_folder(
    folder: RunFolder, on_round: OnRound = lambda record: None, where: Where | None = None
) -> list[Record]:
    """Do all rounds that are left. Interrupted at any point, it can be called again."""
    return drive(steps_in_folder(folder, on_round, Shared(where)))


def steps_in_folder(
    folder: RunFolder,
    on_round: OnRound = lambda record: None,
    shared: Shared | None = None,
    beside: Callable[[], int] = lambda: 1,
) -> Steps[list[Record]]:
    """The same, asking for the work. `beside` says how many runs share the time it takes."""
    config = folder.config()
    with locked(folder.path):
        records = yield from _run(folder, config, on_round, shared, beside)
    return records


def _run(
    folder: RunFolder,
    config: RunConfig,
    on_round: OnRound,
    shared: Shared | None,
    beside: Callable[[], int],
) -> Steps[list[Record]]:
    torch.set_num_threads(config.threads)
    checkpoint = folder.load_checkpoint()
    done = checkpoint.round
    for sentence in checkpoint.damage:
        warnings.warn(f"{sentence}; going on from round {done}", stacklevel=2)
    _check_config(folder, config, checkpoint)
    records = folder.keep_records(done)
    store = _store(folder, config, checkpoint)
    simulation = build_simulation(config, store, shared)
    if done:
        simulation.server.load_state(done, checkpoint.state)
    write_cohort(folder, simulation)
    folder.summary_path.unlink(missing_ok=True)
    try:
        for t in range(done + 1, config.rounds + 1):
            began = time.perf_counter()
            last = t == config.rounds
            evaluate = last or t % config.evaluation.every == 0
            record = yield from simulation.steps(evaluate)
            record["seconds"] = round((time.perf_counter() - began) / beside(), 6)
            folder.append(record)
            records.append(record)
            if t == done + 1:  # now it is known how many clients go together
                engine = simulation.engine
                folder.write_environment(config.device, {"engine": engine.name, **engine.about})
            every = config.checkpoint_every
            if isinstance(store, DiskStore) and (last or (every and t % every == 0)):
                about = {"config": _fingerprint(config), "clients_with_state": len(store)}
                store.checkpointed(folder.save_checkpoint(t, simulation.server.state(), about))
            on_round(record)
    except DivergedError as error:
        summary = _summary(config, records, simulation) | {"diverged": str(error)}
        folder.finish(summary, _model(config, simulation))
        raise DivergedError(
            f"{error}; the {len(records)} rounds before it are in {folder.path}"
        ) from error
    finally:
        simulation.engine.close()
    folder.finish(_summary(config, records, simulation), _model(config, simulation))
    return records


def _model(config: RunConfig, simulation: Simulation) -> Tensors | None:
    return simulation.server.model if config.checkpoint_every else None


# What may be changed between an interruption and a resume.
CHANGEABLE = frozenset(
    {"rounds", "device", "threads", "lanes", "ray", "checkpoint_every", "evaluation"}
)


def _fingerprint(config: RunConfig) -> str:
    left_out = set(CHANGEABLE)
    if config.availability is None:  # as it was before there was such a section
        left_out.add("availability")
    if is_ray(config.engine):  # on whichever cluster
        config = config.model_copy(update={"engine": RAY})
    fixed = config.model_dump_json(exclude=left_out)
    return hashlib.sha256(fixed.encode()).hexdigest()


def _check_config(folder: RunFolder, config: RunConfig, checkpoint: Checkpoint) -> None:
    if checkpoint.round and checkpoint.about.get("config") != _fingerprint(config):
        raise FolderError(
            f"{folder.config_path} was changed after round {checkpoint.round} was done with it; "
            "change it back, or run the new config into another folder"
        )
    if checkpoint.round > config.rounds:
        raise FolderError(
            f"{folder.path} has {checkpoint.round} rounds already, and its config.toml asks for "
            f"{config.rounds}; more can be done, not fewer"
        )


def _store(folder: RunFolder, config: RunConfig, checkpoint: Checkpoint) -> Store:
    if config.checkpoint_every == 0 and checkpoint.round == 0:
        return MemoryStore()
    oldest = min(folder.checkpoint_rounds(), default=0)
    store = DiskStore(folder.clients_path, checkpoint.round, oldest)
    expected = checkpoint.about.get("clients_with_state", 0)
    if len(store) != expected:
        raise FolderError(
            f"{folder.clients_path} holds the state of {len(store)} clients, and {expected} had "
            f"some after round {checkpoint.round}; without it the run would go on with other "
            "numbers: run anew into another folder"
        )
    return store


def _summary(config: RunConfig, records: list[Record], simulation: Simulation) -> dict[str, object]:
    notes = list(simulation.population.split.notes)
    return {
        "algorithm": config.algorithm["name"],
        "seed": config.seed,
        **summarise(records, config.rounds, config.half, config.evaluation.target),
        "seconds": round(sum(r["seconds"] for r in records), 3),
        **({"notes": notes} if notes else {}),
    }
