"""Records to a batch of rows: decode, look up, decide in order, and say what is to be written.

Pure, like ``decide``: this is all that happens to a record between Kafka and Postgres.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from uuid import UUID

from chronica.log import InvalidRecordError, Submission, decode_submission
from chronica.projections import (
    ActumRow,
    Batch,
    ClaimLostError,
    DeadLetterRow,
    HeadRow,
    KeptRow,
    OutcomeRow,
    Wanted,
    chronicum_digest,
    chronicum_number,
    key_digest,
    submission_digest,
)
from chronica.recorder._decide import (
    Created,
    Decision,
    Digests,
    Duplicate,
    Invalid,
    Recorded,
    Refused,
    decide,
)
from chronica.recorder._state import PartitionState

__all__ = [
    "DEAD_VALUE_BYTES_MAX",
    "Last",
    "LogRecord",
    "Read",
    "checksum",
    "fold",
    "read",
    "wanted",
]


DEAD_VALUE_BYTES_MAX = 64 * 1024 * 1024
"""So much of a value a dead letter holds; the topic takes batches of 24 MiB, compressed or not."""


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A record as the log holds it.

    Attributes:
        offset: in its partition.
        timestamp_ms: LogAppendTime, milliseconds of the Unix epoch.
        key: bytes or None.
        value: bytes or None.
        headers: name and value of each.
    """

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Read:
    """A record, decoded, with the digests that its past is looked up by."""

    record: LogRecord
    submission: Submission | Invalid
    digests: Digests | None


@dataclass(frozen=True, slots=True)
class Last:
    """The last record of what is written so far, by which the log is known again."""

    offset: int
    timestamp_ms: int
    checksum: bytes


def checksum(record: LogRecord) -> bytes:
    """Return a record's sha256, over its key's length, its key and its value."""
    key = record.key or b""
    return sha256(b"%d:" % len(key) + key + (record.value or b"")).digest()


def read(record: LogRecord, *, topic: str, partition: int, partitions: int) -> Read:
    """Decode a record; one that can't be is read as ``Invalid``."""
    try:
        s = decode_submission(
            record.key,
            record.value,
            topic=topic,
            partition=partition,
            offset=record.offset,
            partitions=partitions,
        )
    except InvalidRecordError as error:
        return Read(record, Invalid(error.reason, error.detail), None)
    submission = submission_digest(s.tenant, s.chronicum, s.owner, s.id)
    # One namespace: whoever is told "unknown" about a submission without a key retries with its id
    # as the key, and either of the two may reach the log first.
    dedupe = key_digest(s.tenant, s.chronicum, s.id if s.key is None else s.key)
    return Read(record, s, Digests(chronicum_digest(s.tenant, s.chronicum), submission, dedupe))


def wanted(state: PartitionState, reads: Sequence[Read]) -> Wanted:
    """Return what must be looked up before these records can be decided."""
    digests = [r.digests for r in reads if r.digests is not None]
    return Wanted(
        heads=state.unknown(d.chronicum for d in digests),
        dedupes=tuple({d.dedupe for d in digests}),
        kept=tuple({d.submission for d in digests}),
        first_offset=reads[0].record.offset,
        end_offset=reads[-1].record.offset + 1,
    )


def fold(
    state: PartitionState, reads: Sequence[Read], *, partition: int, next_offset: int
) -> Batch:
    """Decide each record in order and return the rows of all of them.

    Raises:
        ClaimLostError: what was looked up shows that another recorder wrote this partition.
    """
    last = reads[-1].record
    batch = Batch(next_offset, last.offset, last.timestamp_ms, checksum(last))
    touched: dict[UUID, HeadRow] = {}
    for item in reads:
        decision = decide(state, item.submission, item.digests, state.verdict(item.record.offset))
        _apply(state, item, decision, partition, batch, touched)
    batch.heads = list(touched.values())
    return batch


def _apply(
    state: PartitionState,
    item: Read,
    decision: Decision,
    partition: int,
    batch: Batch,
    touched: dict[UUID, HeadRow],
) -> None:
    record, s, digests = item.record, item.submission, item.digests
    if isinstance(decision, Invalid):
        batch.dead_letters.append(_dead_letter(record, decision))
        return
    assert isinstance(s, Submission), "what is not a submission is Invalid"
    assert digests is not None, "a submission has digests"
    head = state.head(digests.chronicum)
    match decision:
        case Recorded(seq):
            moved = _moved(head, s, record, partition, digests, seq)
            state.set_head(moved)
            state.set_first(digests.dedupe, seq)
            touched[digests.chronicum] = moved
            batch.acta.append(_actum(s, record, moved.number, digests, seq))
        case Created(again):
            if not again:
                head = _moved(head, s, record, partition, digests, 0)
                state.set_head(head)
                state.keep(digests.submission, KeptRow("recorded", None, None, head.number))
                touched[digests.chronicum] = head
            number = _existing(head).number
            kept = None if again else digests.submission
            batch.outcomes.append(
                OutcomeRow(record.offset, "recorded", None, None, number, None, kept)
            )
        case Duplicate(of):
            number = _existing(head).number
            batch.outcomes.append(
                OutcomeRow(record.offset, "duplicate", None, None, number, of, None)
            )
        case Refused(reason, current_seq, keep):
            if keep:
                answer = KeptRow("refused", reason, current_seq, None)
                state.keep(digests.submission, answer)
            kept = digests.submission if keep else None
            batch.outcomes.append(
                OutcomeRow(record.offset, "refused", reason, current_seq, None, None, kept)
            )


def _existing(head: HeadRow | None) -> HeadRow:
    if head is None:
        # What was looked up just now is newer than the heads that this claim knows.
        raise ClaimLostError("Another recorder has written this partition since it was claimed.")
    return head


def _moved(
    head: HeadRow | None,
    s: Submission,
    record: LogRecord,
    partition: int,
    digests: Digests,
    seq: int,
) -> HeadRow:
    at_ms = record.timestamp_ms
    if head is not None:
        # The broker's clock may be set back; last_activity_at never is.
        return head._replace(last_seq=seq, last_activity_at_ms=max(head.last_activity_at_ms, at_ms))
    assert s.owner is not None, "a submission without owner creates nothing"
    number = chronicum_number(partition, record.offset)
    return HeadRow(number, digests.chronicum, s.tenant, s.chronicum, s.owner, at_ms, at_ms, seq)


def _actum(
    s: Submission, record: LogRecord, chronicum: int, digests: Digests, seq: int
) -> ActumRow:
    return ActumRow(
        chronicum,
        seq,
        record.offset,
        record.timestamp_ms,
        digests.dedupe,
        s.kind,
        s.actor_kind,
        s.id,
        s.actor,
        s.call_id,
        s.key,
        s.metadata,
        s.content,
    )


def _dead_letter(record: LogRecord, decision: Invalid) -> DeadLetterRow:
    value, detail = record.value, decision.detail
    if value is not None and len(value) > DEAD_VALUE_BYTES_MAX:
        # Compressed, a record may be far larger than its batch, and than Postgres takes.
        detail += (
            f" Kept here are its first {DEAD_VALUE_BYTES_MAX} bytes; the log has all {len(value)}, "
            f"sha256 {sha256(value).hexdigest()}."
        )
        value = value[:DEAD_VALUE_BYTES_MAX]
    return DeadLetterRow(
        record.offset,
        record.timestamp_ms,
        decision.reason,
        detail,
        record.key,
        value,
        record.headers,
    )
