"""The recorder against a bare COPY, quixstreams, Kafka Connect, and two of itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack

from tests.benchmarks.connect import ConnectWorker, connect_worker
from tests.benchmarks.drain import copy_rate, drain_rate
from tests.benchmarks.peers import fill_flat_topic
from tests.benchmarks.quix import quix_rate
from tests.benchmarks.rows import Row, Spec, at_least, median
from tests.benchmarks.sample import make_acta
from tests.benchmarks.stage import NotToBeHadError, Stage
from tests.harness.running import dsn_of

__all__ = ["SIZES", "SPECS", "measure"]

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

SIZES = f"{_ACTA:,} acta in {_CHRONICA:,} chronica, median of {_REPETITIONS}"
SPECS = (_COPY, _COPIES, _QUIX, _CONNECT, _TWO)


def measure(stage: Stage) -> Iterator[Row]:
    """Measure all of them in turn, several times over, and yield a row each."""
    acta = make_acta(stage.seed, stage.count(_ACTA), _CHRONICA)
    rates: dict[str, list[float]] = {}
    reasons: dict[str, str] = {}

    def note(name: str, rate: float) -> None:
        rates.setdefault(name, []).append(rate)

    with ExitStack() as stack:
        peers = stack.enter_context(stage.log())
        dsn, topic = dsn_of(peers), f"{peers.topic_prefix}.flat"
        asyncio.run(fill_flat_topic(peers, topic, acta))
        worker: ConnectWorker | None = None
        try:
            stage.say("recorder: starting and warming up Kafka Connect")
            worker = stack.enter_context(connect_worker(stage))
            worker.rate(dsn, topic, acta)
        except NotToBeHadError as error:
            reasons["connect"] = str(error)
        for number in range(1, _REPETITIONS + 1):
            stage.say(f"recorder: repetition {number} of {_REPETITIONS}")
            with stage.log() as settings:
                note("one", drain_rate(stage, settings, acta))
                note("copy", copy_rate(stage, settings, 1))
                note("copies", copy_rate(stage, settings, settings.partitions))
            if worker is not None:
                note("connect", worker.rate(dsn, topic, acta))
            with stage.log() as settings:
                note("two", drain_rate(stage, settings, acta, recorders=2))
            try:
                note("quix", quix_rate(stage, dsn, topic, acta))
            except NotToBeHadError as error:
                reasons["quix"] = str(error)
    middle = {name: median(values) for name, values in rates.items()}
    for spec, name in (
        (_COPY, "copy"),
        (_COPIES, "copies"),
        (_QUIX, "quix"),
        (_CONNECT, "connect"),
    ):
        if name in middle:
            yield spec.measured(middle["one"], middle[name])
        else:
            yield spec.missing(reasons[name], middle["one"])
    yield _TWO.measured(middle["two"], middle["one"])
