"""Run what a folder's config says, from its last checkpoint to the end."""

import time
import warnings
from collections.abc import Callable

import torch

from ..errors import DivergedError
from .build import build_simulation
from .config import RunConfig
from .folder import RunFolder
from .metrics import summarise
from .simulation import Record
from .store import DiskStore

OnRound = Callable[[Record], None]


def start_run(folder: RunFolder, config: RunConfig) -> None:
    """Make a folder for a new run, once everything that can be checked beforehand was."""
    build_simulation(config)
    folder.create(config)


def run_in_folder(folder: RunFolder, on_round: OnRound = lambda record: None) -> list[Record]:
    """Do all rounds that are left. Interrupted at any point, it can be called again."""
    with folder.locked():
        return _run(folder, folder.config(), on_round)


def _run(folder: RunFolder, config: RunConfig, on_round: OnRound) -> list[Record]:
    torch.set_num_threads(config.threads)
    done, state, damage = folder.load_checkpoint()
    for sentence in damage:
        warnings.warn(f"{sentence}; going on from round {done}", stacklevel=2)
    records = folder.keep_records(done)
    oldest = min(folder.checkpoint_rounds(), default=0)
    store = DiskStore(folder.clients_path, resumed_from=done, oldest_checkpoint=oldest)
    simulation = build_simulation(config, store)
    if done:
        simulation.server.load_state(done, state)
    folder.summary_path.unlink(missing_ok=True)
    try:
        for t in range(done + 1, config.rounds + 1):
            began = time.perf_counter()
            last = t == config.rounds
            record = simulation.round(evaluate=last or t % config.evaluation.every == 0)
            record["seconds"] = round(time.perf_counter() - began, 6)
            folder.append(record)
            records.append(record)
            if last or t % config.checkpoint_every == 0:
                store.checkpointed(folder.save_checkpoint(t, simulation.server.state()))
            on_round(record)
    except DivergedError as error:
        summary = _summary(config, records) | {"diverged": str(error)}
        folder.finish(summary, {"model": simulation.server.model})
        raise DivergedError(
            f"{error}; the {len(records)} rounds before it are in {folder.path}"
        ) from error
    folder.finish(_summary(config, records), {"model": simulation.server.model})
    return records


def _summary(config: RunConfig, records: list[Record]) -> dict[str, object]:
    return {
        "algorithm": config.algorithm["name"],
        "seed": config.seed,
        **summarise(records, config.rounds, config.half, config.evaluation.target),
        "seconds": round(sum(r["seconds"] for r in records), 3),
    }
