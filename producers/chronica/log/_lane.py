"""One partition's queue, and the rules by which its records leave it. Sans-IO.

A record is, one after another:

===========  ==================================================================================
waiting      the queue is full; it is not counted and nobody has seen it (kept by ``Lanes``)
queued       nobody has seen it: it can be dropped, and then it was never recorded
handed over  a producer was given it: it may be in the log, whatever is heard later
gone         recorded, refused, or dropped
===========  ==================================================================================

A batch is handed over whole. While it is unresolved no later one of its partition is, so what is
sent again is sent in the order in which it was appended. Deadlines settle the callers, never the
batch: it stays until Kafka has answered for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

__all__ = [
    "Acked",
    "Batch",
    "Effect",
    "Lane",
    "Limits",
    "Place",
    "Record",
    "Replace",
    "Send",
    "Settle",
]

RECORD_OVERHEAD_BYTES: Final = 64
"""What a record takes in a batch besides key and value, generously."""


class Place(Enum):
    """Where a record is."""

    WAITING = auto()
    QUEUED = auto()
    HANDED_OVER = auto()
    GONE = auto()


@dataclass(slots=True, eq=False)
class Record:
    """One record on its way, and who waits for it.

    Attributes:
        partition: where it belongs.
        key: its Kafka key.
        value: its Kafka value.
        deadline: when its caller must have an answer.
        retry_key: what makes a retry of it safe.
        waiter: whatever the shell needs to find the caller again.
        index: the place of the answer among the caller's.
        place: where it is.
        settled: whether its caller has an answer, or waits no longer.
    """

    partition: int
    key: bytes
    value: bytes
    deadline: float
    retry_key: str
    waiter: Any
    index: int = 0
    place: Place = Place.WAITING
    settled: bool = False
    size_bytes: int = 0

    def __post_init__(self) -> None:
        self.size_bytes = len(self.key) + len(self.value) + RECORD_OVERHEAD_BYTES


@dataclass(slots=True, eq=False)
class Batch:
    """Records that are handed over together.

    Attributes:
        records: at least one, in append order.
        size_bytes: their sizes together.
        handed_over_at: when it first was.
        expired: so many from the front are past their deadlines.
        unclear: how often Kafka's answer said nothing.
    """

    records: list[Record]
    size_bytes: int
    handed_over_at: float
    expired: int = 0
    unclear: int = 0

    def halves(self, now: float) -> tuple[Batch, Batch]:
        """Return its first and its second half, handed over anew."""
        middle = len(self.records) // 2
        first, second = self.records[:middle], self.records[middle:]
        return _batch_of(first, now), _batch_of(second, now)


def _batch_of(records: list[Record], now: float) -> Batch:
    return Batch(records, sum(record.size_bytes for record in records), now)


@dataclass(slots=True, eq=False)
class Send:
    """Effect: hand this batch to the present producer, and answer with this very object."""

    partition: int
    batch: Batch
    sent_at: float


@dataclass(slots=True, eq=False)
class Acked:
    """Effect: the batch is in the log, its first record at ``offset``."""

    partition: int
    batch: Batch
    offset: int


@dataclass(slots=True, eq=False)
class Settle:
    """Effect: tell the caller of this record why it has no position."""

    record: Record
    error: Exception


@dataclass(slots=True, eq=False)
class Replace:
    """Effect: close the producer, forget its answers, start another."""


Effect = Send | Acked | Settle | Replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What bounds a batch, and how long one may be without an answer.

    Attributes:
        batch_bytes_max: a batch of several records has no more; a larger record goes alone.
        batch_records_max: nor more records.
        linger_s: how long the first of a batch waits for company.
        stuck_after_s: a batch without an answer for so long gets a new producer.
        patience_s: a record that comes while Kafka has been silent for so long is refused at once.
    """

    batch_bytes_max: int = 1024 * 1024
    batch_records_max: int = 10_000
    linger_s: float = 0.0
    stuck_after_s: float = 30.0
    patience_s: float = 2.0


class Lane:
    """One partition: what is handed over and unresolved, and what is queued behind it."""

    def __init__(self, partition: int, limits: Limits) -> None:
        self.partition = partition
        self.batches: deque[Batch] = deque()
        """Handed over and unresolved, in append order; only the first is ever in flight."""
        self.in_flight: Send | None = None
        self.offset_last = -1
        """The furthest offset that was acknowledged."""
        self._limits = limits
        self._queue: deque[Record] = deque()
        self._queue_bytes = 0
        self._lingers_until = 0.0
        self._deadline_last = float("-inf")

    def enqueue(self, record: Record, now: float) -> None:
        """Queue a record behind all others."""
        assert record.deadline >= self._deadline_last, "deadlines come in append order"
        self._deadline_last = record.deadline
        if not self._queue_bytes:
            self._lingers_until = now + self._limits.linger_s
        record.place = Place.QUEUED
        self._queue.append(record)
        self._queue_bytes += record.size_bytes

    def drop(self, record: Record) -> None:
        """Take a queued record out. Its bytes go now, its place in the queue when it comes up."""
        assert record.place is Place.QUEUED, "only what nobody has seen can be dropped"
        record.place = Place.GONE
        self._queue_bytes -= record.size_bytes
        record.value = b""

    def expire(self, now: float) -> Iterator[Record]:
        """Yield the records whose deadline has come; the queued ones are dropped."""
        for batch in self.batches:
            while batch.expired < len(batch.records):
                record = batch.records[batch.expired]
                if record.deadline > now:
                    break
                batch.expired += 1
                yield record
        while self._queue and (
            self._queue[0].place is Place.GONE or self._queue[0].deadline <= now
        ):
            record = self._queue.popleft()
            if record.place is Place.QUEUED:
                self.drop(record)
                yield record

    def hand_over(self, now: float, *, at_once: bool) -> Send | None:
        """Return the batch that is to be sent now, if any; it counts as handed over.

        Args:
            now: the time.
            at_once: send without lingering.
        """
        if self.in_flight is not None:
            return None
        if not self.batches:
            lingers = not at_once and now < self._lingers_until
            if not self._queue_bytes or (lingers and not self._fills_a_batch()):
                return None
            self.batches.append(self._form(now))
        self.in_flight = Send(self.partition, self.batches[0], now)
        return self.in_flight

    def _fills_a_batch(self) -> bool:
        limits = self._limits
        return (
            self._queue_bytes >= limits.batch_bytes_max
            or len(self._queue) >= limits.batch_records_max
        )

    def _form(self, now: float) -> Batch:
        records: list[Record] = []
        size_bytes = 0
        queue, limits = self._queue, self._limits
        while queue and len(records) < limits.batch_records_max:
            record = queue[0]
            if record.place is Place.QUEUED:
                if records and size_bytes + record.size_bytes > limits.batch_bytes_max:
                    break
                record.place = Place.HANDED_OVER
                size_bytes += record.size_bytes
                records.append(record)
            queue.popleft()
        self._queue_bytes -= size_bytes
        return Batch(records, size_bytes, now)

    def recall(self) -> None:
        """Forget who was given the first batch: it is unresolved, and sent again."""
        self.in_flight = None

    def resolve(self) -> Batch:
        """Take the first batch out: nothing more will be heard of it."""
        self.in_flight = None
        batch = self.batches.popleft()
        for record in batch.records:
            record.place = Place.GONE
            record.value = b""
        return batch

    def bisect(self, now: float) -> None:
        """Put the first batch's halves in its place: Kafka has answered, if not for them."""
        self.in_flight = None
        self.batches.extendleft(reversed(self.batches.popleft().halves(now)))

    def silent_since(self) -> float:
        """Return since when Kafka owes an answer here; infinity if it doesn't."""
        return self.batches[0].handed_over_at if self.batches else float("inf")

    def clear(self) -> Iterator[Record]:
        """Take everything out, in append order; each record's place still says where it was."""
        self.in_flight = None
        for batch in self.batches:
            yield from batch.records
        self.batches.clear()
        yield from (record for record in self._queue if record.place is Place.QUEUED)
        self._queue.clear()
        self._queue_bytes = 0

    def wake_at(self, *, sending: bool) -> float:
        """Return when something is due here even if nothing is heard; infinity if never.

        Args:
            sending: whether there is a producer to send with.
        """
        times = [
            next(
                (
                    batch.records[batch.expired].deadline
                    for batch in self.batches
                    if batch.expired < len(batch.records)
                ),
                float("inf"),
            )
        ]
        if self._queue:
            times.append(self._queue[0].deadline)
            if sending and not self.batches and self._queue_bytes:
                times.append(self._lingers_until)
        if self.in_flight is not None:
            times.append(self.in_flight.sent_at + self._limits.stuck_after_s)
        return min(times)
