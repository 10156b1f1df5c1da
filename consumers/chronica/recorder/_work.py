"""The recorder's work on one partition, without I/O: a generator of steps (rules 3.4, 3.6).

It yields what is to be done and is sent what came of it, or is thrown what went wrong; whoever runs
it does the waiting. The shell runs it on Kafka and Postgres, the simulation on a model of both that
crashes between any two steps.

    claim -> identify -> seek -> ( fetch -> look up -> write )* until the claim is lost
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from chronica.log import LogRefusedError, LogUnavailableError
from chronica.projections import (
    Batch,
    ClaimLostError,
    ClaimRow,
    DataRefusedError,
    PostgresUnavailableError,
    Wanted,
)
from chronica.recorder._fold import Last, LogRecord, Read, checksum, fold, read, wanted
from chronica.recorder._state import PartitionState

__all__ = [
    "Abandon",
    "Claim",
    "Fetch",
    "Fetched",
    "Identify",
    "Identity",
    "Limits",
    "LookUp",
    "PinVerdict",
    "Step",
    "StepFailedError",
    "Write",
    "work",
]


class StepFailedError(Exception):
    """A step failed in a way nobody foresaw: the claim is given up and tried again."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Claim the partition; answered by a ``ClaimRow``, or None if another holds it."""


@dataclass(frozen=True, slots=True)
class Identify:
    """Read again the record at ``offset`` (-1: none) and the log's end; answered by Identity."""

    offset: int


@dataclass(frozen=True, slots=True)
class Identity:
    """What the log holds now: the record asked for, and the offset after its last one."""

    record: LogRecord | None
    end_offset: int


@dataclass(frozen=True, slots=True)
class Fetch:
    """Read on from ``offset``; answered by Fetched, empty after a while without records."""

    offset: int


@dataclass(frozen=True, slots=True)
class Fetched:
    """Records in order, and the offset to read on from, which may lie past the last one."""

    records: Sequence[LogRecord]
    next_offset: int


@dataclass(frozen=True, slots=True)
class LookUp:
    """Look up what a batch must know; answered by Found."""

    claim: ClaimRow
    wanted: Wanted


@dataclass(frozen=True, slots=True)
class Write:
    """Write a batch in one transaction that expects the partition at ``expected_offset``."""

    claim: ClaimRow
    expected_offset: int
    batch: Batch


@dataclass(frozen=True, slots=True)
class PinVerdict:
    """Pin an answer for the one record that Postgres refuses, durably."""

    offset: int
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Abandon:
    """Give up the claim's connection and wait: the ``failures``-th failure in a row."""

    failures: int
    error: Exception


Step = Claim | Identify | Fetch | LookUp | Write | PinVerdict | Abandon
Steps = Generator[Step, Any, None]


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one batch may hold: records, and bytes of their values."""

    records_max: int = 4000
    bytes_max: int = 8 * 1024 * 1024


def work(topic: str, partitions: int, limits: Limits, state: PartitionState) -> Steps:
    """Record one partition until another holds it.

    Raises:
        LogRefusedError: the log is not the one that was recorded so far.
    """
    failures = 0
    while True:
        state.forget()
        try:
            claim: ClaimRow | None = yield Claim()
            if claim is None:
                return
            identity: Identity = yield Identify(claim.last_offset)
            _check_identity(topic, claim, identity)
            progress = _Progress(topic, partitions, claim, limits, state)
            while True:
                fetched: Fetched = yield Fetch(progress.next_offset)
                yield from progress.record(fetched)
                failures = 0
        except (
            ClaimLostError,
            DataRefusedError,
            PostgresUnavailableError,
            LogUnavailableError,
            StepFailedError,
        ) as error:
            failures += 1
            yield Abandon(failures, error)


def _check_identity(topic: str, claim: ClaimRow, identity: Identity) -> None:
    where = f"Partition {claim.partition} of {topic}"
    if identity.end_offset < claim.next_offset:
        raise LogRefusedError(
            f"{where} ends at offset {identity.end_offset}, but {claim.next_offset} offsets of it "
            "are recorded: the log was truncated or recreated, and what is appended next would be "
            "taken for recorded. Nothing was changed. Restore the topic from its replicas or a "
            "backup, or start a new log with a database of its own."
        )
    if claim.last_offset < 0:
        return
    record = identity.record
    if (
        record is None
        or record.timestamp_ms != claim.last_timestamp_ms
        or checksum(record) != claim.last_checksum
    ):
        raise LogRefusedError(
            f"{where} holds another record at offset {claim.last_offset} than the one that was "
            "recorded: the log was recreated or restored from elsewhere. Nothing was changed. "
            "Restore the topic, or start a new log with a database of its own."
        )


class _Progress:
    """How far a claim has come, and what it takes to go further."""

    def __init__(
        self,
        topic: str,
        partitions: int,
        claim: ClaimRow,
        limits: Limits,
        state: PartitionState,
    ) -> None:
        self._topic = topic
        self._partitions = partitions
        self._claim = claim
        self._limits = limits
        self._state = state
        self._last = Last(claim.last_offset, claim.last_timestamp_ms, claim.last_checksum)
        self.next_offset = claim.next_offset

    def record(self, fetched: Fetched) -> Steps:
        """Write what was fetched, in batches within the limits, and the position after it."""
        batches = list(_split(fetched.records, self._limits))
        for number, records in enumerate(batches, start=1):
            after = records[-1].offset + 1 if number < len(batches) else fetched.next_offset
            reads = [
                read(
                    record,
                    topic=self._topic,
                    partition=self._claim.partition,
                    partitions=self._partitions,
                )
                for record in records
            ]
            yield from self._write(reads, after)
        if fetched.next_offset > self.next_offset:
            # Only marks of transactions, or aborted records: without this the lag would never end.
            last = self._last
            yield from self._move(
                Batch(fetched.next_offset, last.offset, last.timestamp_ms, last.checksum)
            )

    def _write(self, reads: Sequence[Read], after: int, *, judged: bool = False) -> Steps:
        asked = wanted(self._state, reads)
        found = yield LookUp(self._claim, asked)
        self._state.begin(asked.heads, found)
        batch = fold(self._state, reads, partition=self._claim.partition, next_offset=after)
        try:
            yield from self._move(batch)
        except DataRefusedError as error:
            # What was folded was not written: every head is as it was before.
            self._state.forget()
            if len(reads) > 1:
                half = len(reads) // 2
                yield from self._write(reads[:half], reads[half].record.offset)
                yield from self._write(reads[half:], after)
            elif judged:
                raise PostgresUnavailableError(
                    f"Postgres refuses the dead letter at offset {reads[0].record.offset} too: "
                    f"{error}"
                ) from error
            else:
                yield PinVerdict(reads[0].record.offset, "internal_error", str(error))
                yield from self._write(reads, after, judged=True)
        else:
            self._state.end()

    def _move(self, batch: Batch) -> Steps:
        yield Write(self._claim, self.next_offset, batch)
        self.next_offset = batch.next_offset
        self._last = Last(batch.last_offset, batch.last_timestamp_ms, batch.last_checksum)


def _split(records: Sequence[LogRecord], limits: Limits) -> Iterator[Sequence[LogRecord]]:
    start = held_bytes = 0
    for index, record in enumerate(records):
        size = len(record.value or b"")
        full = index - start >= limits.records_max or held_bytes + size > limits.bytes_max
        if full and index > start:
            yield records[start:index]
            start, held_bytes = index, 0
        held_bytes += size
    if start < len(records):
        yield records[start:]
