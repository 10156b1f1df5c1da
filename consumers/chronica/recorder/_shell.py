"""The I/O around the work on one partition: a consumer and a connection of its own.

One consumer a claim, assigned by hand, because a shared consumer's ``assign`` forgets the positions
of all its partitions, and a slow partition must not hold up another (docs/decisions/0005).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import psycopg
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError
from psycopg import AsyncConnection

from chronica.log import (
    LogRefusedError,
    LogUnavailableError,
    TopicFacts,
    start_consumer,
    stop_consumer,
)
from chronica.projections import (
    ClaimLostError,
    DataRefusedError,
    PostgresUnavailableError,
    claim_partition,
    connect,
    hang_up,
    look_up,
    pin_verdict,
    sorted_error,
    within,
    write_batch,
)
from chronica.recorder._fold import LogRecord
from chronica.recorder._lenient import install as install_lenient_records
from chronica.recorder._state import PartitionState
from chronica.recorder._work import (
    Abandon,
    Claim,
    Fetch,
    Fetched,
    Identify,
    Identity,
    Limits,
    LookUp,
    PinVerdict,
    Step,
    StepFailedError,
    Write,
    work,
)

__all__ = ["PartitionShell", "backoff_s"]

_log = logging.getLogger("chronica.recorder")
_T = TypeVar("_T")

# synchronous_commit=off: what a Postgres crash takes back, the log replays to the same rows (3.4).
# The timeouts free a partition whose recorder hangs: its session, and with it the lock, is ended.
_SESSION_OPTIONS = (
    "-c synchronous_commit=off -c idle_session_timeout=60s "
    "-c idle_in_transaction_session_timeout=30s -c statement_timeout=60s"
)
_PING_AFTER_S = 5.0
_FETCH_WAIT_MS = 500
_KAFKA_ANSWER_S = 30.0
_POSTGRES_ANSWER_S = 75.0  # past the statement timeout, which frees the server's side
_FAILURES_QUIET = 1


def backoff_s(failures: int, jitter: float) -> float:
    """Return how long to wait after so many failures in a row; ``jitter`` is from 0 to 1."""
    return float(min(0.1 * 2 ** min(failures, 6), 5.0) * (0.5 + jitter / 2))


@dataclass(slots=True)
class PartitionShell:
    """Runs the work on one partition on real Kafka and Postgres.

    Attributes:
        client: keyword arguments of every aiokafka client.
        dsn: Postgres connection string.
        topic: short name of the topic.
        facts: what the topic is.
        partition: which one.
        limits: of one batch.
        name: of this recorder, as Postgres shows it.
        sleep: injected; waits after failures.
        jitter: injected; returns a number from 0 to 1.
        next_offset: how far it has come, for the lag; -1 before the claim.
    """

    client: dict[str, Any]
    dsn: str
    topic: str
    facts: TopicFacts
    partition: int
    limits: Limits = field(default_factory=Limits)
    name: str = "chronica recorder"
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    jitter: Callable[[], float] = random.random
    next_offset: int = -1
    _stopping: bool = False
    _conn: AsyncConnection[Any] | None = None
    _consumer: AIOKafkaConsumer | None = None
    _position: int = -1
    _spoken_at_s: float = 0.0

    def stop(self) -> None:
        """End the work after the step that is under way."""
        self._stopping = True

    def hang_up(self) -> None:
        """Drop the connection as it is: Postgres hangs, and nothing may wait for it."""
        if self._conn is not None:
            hang_up(self._conn)

    async def run(self) -> None:
        """Work until stopped, or until another recorder holds the partition.

        Raises:
            LogRefusedError: the log is not the one that was recorded so far.
        """
        steps = work(self.topic, self.facts.partitions, self.limits, PartitionState())
        try:
            step = next(steps)
            while not self._stopping:
                try:
                    answer = await self._do(step)
                except (
                    ClaimLostError,
                    DataRefusedError,
                    PostgresUnavailableError,
                    LogUnavailableError,
                ) as error:
                    step = steps.throw(error)
                except LogRefusedError:
                    raise
                except Exception as error:  # noqa: BLE001
                    # Unforeseen, so it may pass; the other partitions go on, and someone is told.
                    _log.exception("step failed topic=%s partition=%d", self.topic, self.partition)
                    step = steps.throw(StepFailedError(f"{type(error).__name__}: {error}"))
                else:
                    step = steps.send(answer)
        except StopIteration:
            pass
        finally:
            steps.close()
            await self._close()

    async def _do(self, step: Step) -> Any:  # noqa: PLR0911  (one return a step)
        match step:
            case Claim():
                return await self._claim()
            case Identify(offset):
                return await self._identify(offset)
            case Fetch(offset):
                self.next_offset = offset
                return await self._fetch(offset)
            case LookUp(claim, wanted):
                return await self._answer(look_up(self._connection, claim, self.topic, wanted))
            case Write(claim, expected, batch):
                self._spoken_at_s = asyncio.get_running_loop().time()
                return await self._answer(
                    write_batch(self._connection, claim, self.topic, expected, batch)
                )
            case PinVerdict(offset, reason, detail):
                return await self._pin(offset, reason, detail)
            case Abandon(failures, error):
                return await self._abandon(failures, error)

    @property
    def _connection(self) -> AsyncConnection[Any]:
        assert self._conn is not None, "claimed before anything else"
        return self._conn

    async def _answer(self, work: Awaitable[_T]) -> _T:
        try:
            return await within(self._connection, work, timeout_s=_POSTGRES_ANSWER_S)
        except psycopg.Error as error:
            raise sorted_error(error) from error

    async def _claim(self) -> Any:
        self._conn = await connect(self.dsn, name=self.name, options=_SESSION_OPTIONS)
        return await self._answer(claim_partition(self._conn, self.topic, self.partition))

    async def _pin(self, offset: int, reason: str, detail: str) -> None:
        _log.error(
            "postgres refused a record: pinned verdict topic=%s partition=%d offset=%d detail=%s",
            self.topic,
            self.partition,
            offset,
            detail,
        )
        await self._answer(
            pin_verdict(self._connection, self.topic, self.partition, offset, reason, detail)
        )

    async def _consuming(self) -> AIOKafkaConsumer:
        if self._consumer is None:
            install_lenient_records()
            consumer = AIOKafkaConsumer(
                **self.client,
                isolation_level="read_committed",
                enable_auto_commit=False,
                auto_offset_reset="none",
                max_partition_fetch_bytes=4 * 1024 * 1024,
                fetch_max_wait_ms=_FETCH_WAIT_MS,
            )
            try:
                await start_consumer(consumer)
            except (KafkaError, OSError) as error:
                raise LogUnavailableError(f"Kafka does not answer: {error}") from error
            consumer.assign([TopicPartition(self.facts.name, self.partition)])
            self._consumer = consumer
        return self._consumer

    async def _identify(self, offset: int) -> Identity:
        consumer = await self._consuming()
        place = TopicPartition(self.facts.name, self.partition)
        try:
            async with asyncio.timeout(_KAFKA_ANSWER_S):
                ends = await consumer.end_offsets([place])
                end = int(ends[place])
                record = None
                if 0 <= offset < end:
                    record = await self._record_at(consumer, place, offset)
        except OffsetOutOfRangeError:
            record = None  # deleted meanwhile: the identity check says so
        except (KafkaError, OSError, TimeoutError) as error:
            raise LogUnavailableError(
                f"Kafka does not answer: {type(error).__name__} {error}"
            ) from error
        return Identity(record, end)

    async def _record_at(
        self, consumer: AIOKafkaConsumer, place: TopicPartition, offset: int
    ) -> LogRecord | None:
        consumer.seek(place, offset)
        self._position = -1
        while True:
            polled = await consumer.getmany(place, timeout_ms=_FETCH_WAIT_MS, max_records=1)
            for message in polled.get(place, ()):
                record = _record(message)
                return record if record.offset == offset else None

    async def _fetch(self, offset: int) -> Fetched:
        consumer = await self._consuming()
        place = TopicPartition(self.facts.name, self.partition)
        if offset != self._position:
            consumer.seek(place, offset)
        try:
            polled = await consumer.getmany(
                place, timeout_ms=_FETCH_WAIT_MS, max_records=self.limits.records_max
            )
            self._position = int(await consumer.position(place))
        except OffsetOutOfRangeError as error:
            raise LogRefusedError(
                f"Partition {self.partition} of {self.topic} has no offset {offset} any more: the "
                "log was truncated while it was read. Restore the topic, or start a new log."
            ) from error
        except KafkaError as error:
            raise LogUnavailableError(f"Kafka does not answer: {error}") from error
        records = [_record(message) for message in polled.get(place, ())]
        if not records:
            await self._ping()
        return Fetched(records, self._position)

    async def _ping(self) -> None:
        """Show Postgres that the claim's session lives, and see whether it does."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._spoken_at_s < _PING_AFTER_S:
            return
        self._spoken_at_s = now_s
        await self._answer(self._connection.execute("SELECT 1"))

    async def _abandon(self, failures: int, error: Exception) -> None:
        level = logging.INFO if failures <= _FAILURES_QUIET else logging.WARNING
        _log.log(
            level,
            "claim abandoned topic=%s partition=%d failures=%d reason=%s",
            self.topic,
            self.partition,
            failures,
            error,
        )
        await self._close()
        await self.sleep(backoff_s(failures, self.jitter()))

    async def _close(self) -> None:
        conn, self._conn = self._conn, None
        consumer, self._consumer = self._consumer, None
        self._position = -1
        if conn is not None:
            await conn.close()
        if consumer is not None:
            await stop_consumer(consumer)


def _record(message: Any) -> LogRecord:
    return LogRecord(
        message.offset, message.timestamp, message.key, message.value, tuple(message.headers)
    )
