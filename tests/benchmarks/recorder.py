"""The recorder against a bare COPY, quixstreams, Kafka Connect, and two of itself."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TypeVar

from tests.benchmarks.connect import connect_worker
from tests.benchmarks.drain import copy_rate, drain_rate
from tests.benchmarks.peers import fill_flat_topic
from tests.benchmarks.quix import quix_rate
from tests.benchmarks.rows import Row, Spec, at_least, median
from tests.benchmarks.sample import make_acta
from tests.benchmarks.stage import NotToBeHadError, Stage
from tests.harness.running import dsn_of

__all__ = ["SIZES", "SPECS", "measure"]

_T = TypeVar("_T")

_ACTA = 80_000
_CHRONICA = 2_000
_REPETITIONS = 3

_COPY = Spec(
    "recorder, one process",
    "acta/s",
    "bare COPY of the same rows, one connection",
    at_least(0.5),
    "The floor is 0.35.",
)
_COPIES = Spec(
    "recorder, one process", "acta/s", "bare COPY, a connection a partition", at_least(0.5)
)
_QUIX = Spec(
    "recorder, one process",
    "acta/s",
    "quixstreams, exactly once",
    at_least(10),
    "It remembers each key in RocksDB and commits every 10,000; it gives no numbers.",
)
_CONNECT = Spec(
    "recorder, one process",
    "acta/s",
    "Kafka Connect, Debezium JDBC",
    at_least(6),
    "It upserts in batches of 3,000, two tasks; the last of a key wins, and it gives no numbers.",
)
_TWO = Spec(
    "two recorders",
    "acta/s",
    "one recorder",
    at_least(1),
    "Kafka, Postgres and both recorders share this machine's cores.",
)

SIZES = (
    f"{_ACTA:,} acta in {_CHRONICA:,} chronica, median of {_REPETITIONS}; recorder and COPY commit "
    "with synchronous_commit off (the log replays), peers with on (Kafka keeps their offsets)"
)
SPECS = (_COPY, _COPIES, _QUIX, _CONNECT, _TWO)


def measure(stage: Stage) -> Iterator[Row]:
    """Measure all of them in turn, several times over, and yield a row each."""
    acta = make_acta(stage.seed, stage.count(_ACTA), _CHRONICA)
    rates: dict[str, list[float]] = defaultdict(list)
    with ExitStack() as stack:
        settings = stack.enter_context(stage.log())
        peers = _Peers(dsn_of(settings), f"{settings.topic_prefix}.flat")
        asyncio.run(fill_flat_topic(settings, peers.topic, acta))
        stage.say("recorder: starting and warming up Kafka Connect")
        worker = peers.tried("connect", lambda: stack.enter_context(connect_worker(stage)))
        if worker is not None:
            peers.tried("connect", lambda: worker.rate(peers.dsn, peers.topic, acta))
        for number in range(1, _REPETITIONS + 1):
            stage.say(f"recorder: repetition {number} of {_REPETITIONS}")
            with stage.log() as settings:
                rates["one"].append(drain_rate(stage, settings, acta))
                rates["copy"].append(copy_rate(stage, settings, 1))
                rates["copies"].append(copy_rate(stage, settings, settings.partitions))
            if worker is not None:
                peers.measure("connect", lambda: worker.rate(peers.dsn, peers.topic, acta))
            with stage.log() as settings:
                rates["two"].append(drain_rate(stage, settings, acta, recorders=2))
            peers.measure("quix", lambda: quix_rate(stage, peers.dsn, peers.topic, acta))
    ours = median(rates["one"])
    yield _COPY.measured(ours, median(rates["copy"]))
    yield _COPIES.measured(ours, median(rates["copies"]))
    yield peers.row("quix", _QUIX, ours)
    yield peers.row("connect", _CONNECT, ours)
    yield _TWO.measured(median(rates["two"]), ours)
    if peers.broke:
        raise ExceptionGroup("peers broke", peers.broke)


class _Peers:
    """Measurements of peers: one that fails leaves its own row empty, and no other."""

    def __init__(self, dsn: str, topic: str) -> None:
        self.dsn = dsn
        self.topic = topic
        self.broke: list[Exception] = []
        self._rates: dict[str, list[float]] = defaultdict(list)
        self._reasons: dict[str, str] = {}

    def tried(self, name: str, work: Callable[[], _T]) -> _T | None:
        """Do something with a peer that has not failed yet; return None if it fails now."""
        if name in self._reasons:
            return None
        try:
            return work()
        except NotToBeHadError as error:
            self._reasons[name] = str(error)
        except Exception as error:
            self._reasons[name] = f"it broke ({error})"
            self.broke.append(error)
        return None

    def measure(self, name: str, work: Callable[[], float]) -> None:
        """Note one more rate of a peer."""
        rate = self.tried(name, work)
        if rate is not None:
            self._rates[name].append(rate)

    def row(self, name: str, spec: Spec, ours: float) -> Row:
        """Return the row against a peer."""
        if name in self._reasons:
            return spec.missing(self._reasons[name], ours)
        return spec.measured(ours, median(self._rates[name]))
