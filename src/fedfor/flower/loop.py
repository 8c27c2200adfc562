"""Flower's loop over rounds, which can be resumed, and tries a round again."""

import io
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from logging import ERROR, INFO, WARNING
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.app.exception import AppExitException
from flwr.serverapp import Grid
from flwr.serverapp import strategy as flower
from flwr.serverapp.strategy.strategy_utils import log_strategy_start_info
from flwr.supercore import log

from ..errors import ConfigError, FedforError, require_whole
from .folder import Journal
from .nodes import FederationError
from .strategy import Strategy

EvaluateFn = Callable[[int, ArrayRecord], MetricRecord | None]


def start(
    strategy: flower.Strategy,
    grid: Grid,
    initial_arrays: ArrayRecord | None = None,
    num_rounds: int = 3,
    timeout: float = 3600,
    train_config: ConfigRecord | None = None,
    evaluate_config: ConfigRecord | None = None,
    evaluate_fn: EvaluateFn | None = None,
) -> flower.Result:
    """Run a fedfor strategy, or one of Flower's wrappers around one.

    A wrapper's own `start` works too, but neither resumes nor tries a round again.
    """
    require_whole("start", "num_rounds", num_rounds)
    inner = innermost(strategy)
    if strategy is not inner:
        inner.warn_of_wrapper(type(strategy).__name__)
    journal = None if inner.folder is None else Journal(inner.folder)
    with nullcontext() if journal is None else journal.held():
        inner.in_our_loop = True
        try:
            if initial_arrays is not None:
                inner.adopt(initial_arrays)
            if journal is not None:
                journal.open(inner, list(wrappers(strategy)), num_rounds)
            run = _Run(strategy, inner, grid, timeout, train_config, evaluate_config, evaluate_fn)
            return run.rounds(num_rounds, journal)
        except FederationError as error:
            stopped = FederationError(f"round {inner.server.round + 1}: {error}; {inner.kept()}")
            log(ERROR, "%s", stopped)
            raise stopped from None
        except FedforError as error:
            log(ERROR, "%s", error)
            raise
        finally:
            inner.in_our_loop = False


def innermost(strategy: flower.Strategy) -> Strategy:
    """The fedfor strategy inside Flower's wrappers."""
    found: object = strategy
    for wrapper in wrappers(strategy):
        found = getattr(wrapper, "strategy", None)
    if not isinstance(found, Strategy):
        raise ConfigError(f"there is no fedfor strategy in a {type(strategy).__name__}")
    return found


def wrappers(strategy: object) -> Iterator[Any]:
    """Flower's wrappers around the strategy, the outermost first."""
    while strategy is not None and not isinstance(strategy, Strategy):
        yield strategy
        strategy = getattr(strategy, "strategy", None)


@contextmanager
def calibrated(strategy: flower.Strategy, replies: int) -> Iterator[None]:
    """Noise is divided by how many clients a wrapper was told of: let it be those that count."""
    told = [w for w in wrappers(strategy) if hasattr(w, "num_sampled_clients")]
    before = [w.num_sampled_clients for w in told]
    try:
        for wrapper in told:
            wrapper.num_sampled_clients = min(replies, wrapper.num_sampled_clients)
        yield
    finally:
        for wrapper, number in zip(told, before, strict=True):
            wrapper.num_sampled_clients = number


class _Run:
    def __init__(
        self,
        strategy: flower.Strategy,
        inner: Strategy,
        grid: Grid,
        timeout: float,
        train_config: ConfigRecord | None,
        evaluate_config: ConfigRecord | None,
        evaluate_fn: EvaluateFn | None,
    ) -> None:
        self.strategy, self.inner, self.grid, self.timeout = strategy, inner, grid, timeout
        self.train_config, self.evaluate_config = train_config, evaluate_config
        self.evaluate_fn = evaluate_fn
        self.result = flower.Result()

    def rounds(self, last: int, journal: Journal | None) -> flower.Result:
        arrays = self.result.arrays = self.inner.arrays()
        done = self.inner.server.round
        wrapped = self.strategy is not self.inner
        name = type(self.strategy).__name__ if wrapped else self.inner.algorithm.label
        log(INFO, "Starting %s strategy:", name)
        log_strategy_start_info(last, arrays, self.train_config, self.evaluate_config)
        self.strategy.summary()
        log(INFO, "")
        began = time.time()
        if done:
            log(INFO, "Going on after round %d of %d", done, last)
        elif self.evaluate_fn and (found := self.evaluate_fn(0, arrays)) is not None:
            log(INFO, "Initial global evaluation results: %s", found)
            self.result.evaluate_metrics_serverapp[0] = found
        for t in range(done + 1, last + 1):
            log(INFO, "")
            log(INFO, "[ROUND %s/%s]", t, last)
            began_round = time.perf_counter()
            arrays = self._train(t, arrays)
            self._evaluate(t, arrays)
            record = self.inner.records[-1]
            record["seconds"] = round(time.perf_counter() - began_round, 6)
            if journal is not None:
                journal.round_done(self.inner, record, t == last)
        if journal is not None:
            journal.finish(self.inner, last)
        log(INFO, "")
        log(INFO, "Strategy execution finished in %.2fs", time.time() - began)
        log(INFO, "")
        log(INFO, "Final results:")
        for line in io.StringIO(str(self.result)):
            log(INFO, "\t%s", line.strip("\n"))
        return self.result

    def _train(self, t: int, arrays: ArrayRecord) -> ArrayRecord:
        config = ConfigRecord() if self.train_config is None else self.train_config
        for attempt in range(self.inner.retries + 1):
            if attempt:
                log(WARNING, "Round %d is tried again (%d of %d)", t, attempt, self.inner.retries)
            messages = list(self.strategy.configure_train(t, arrays, config, self.grid))
            moved, metrics = self._aggregated(t, self._replies(messages))
            if moved is None:
                continue
            self.inner.adopt(moved)
            self.result.arrays = moved
            if metrics is not None:
                log(INFO, "\t└──> Aggregated MetricRecord: %s", metrics)
                self.result.train_metrics_clientapp[t] = metrics
            return moved
        tries = self.inner.retries + 1
        times = f"{tries} attempt{'s' if tries > 1 else ''}"
        raise FederationError(f"too few good replies in {times} ({self.inner.why_stuck()})")

    def _replies(self, messages: list[Message]) -> list[Message]:
        replies = list(self.grid.send_and_receive(messages, timeout=self.timeout))
        replies, more = self.inner.whole_models(replies)
        if more:
            replies += self.grid.send_and_receive(more, timeout=self.timeout)
        return replies

    def _aggregated(
        self, t: int, replies: list[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        if self.strategy is self.inner:
            return self.inner.aggregate_train(t, replies)
        sound = self.inner.sift(replies)
        if sound is None:
            return None, None
        with calibrated(self.strategy, len(sound)):
            try:
                return self.strategy.aggregate_train(t, sound)
            except AppExitException as error:  # a wrapper's own precondition
                raise FederationError(f"{type(self.strategy).__name__}: {error}") from error

    def _evaluate(self, t: int, arrays: ArrayRecord) -> None:
        config = ConfigRecord() if self.evaluate_config is None else self.evaluate_config
        messages = list(self.strategy.configure_evaluate(t, arrays, config, self.grid))
        if messages:
            replies = self.grid.send_and_receive(messages, timeout=self.timeout)
            metrics = self.strategy.aggregate_evaluate(t, replies)
            if metrics is not None:
                log(INFO, "\t└──> Aggregated MetricRecord: %s", metrics)
                self.result.evaluate_metrics_clientapp[t] = metrics
        if self.evaluate_fn and (found := self.evaluate_fn(t, arrays)) is not None:
            log(INFO, "Global evaluation")
            log(INFO, "\t└──> MetricRecord: %s", found)
            self.result.evaluate_metrics_serverapp[t] = found
            told = {k: found[k] for k in ("accuracy", "loss") if k in found}
            self.inner.records[-1].update(told)
