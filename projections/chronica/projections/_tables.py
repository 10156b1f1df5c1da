"""The rows a batch writes: plain data between the recorder, which decides, and the SQL."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from chronica.log import PARTITIONS_MAX

__all__ = [
    "ActumRow",
    "Batch",
    "ClaimRow",
    "DeadLetterRow",
    "Found",
    "HeadRow",
    "KeptRow",
    "OutcomeRow",
    "Wanted",
    "chronicum_number",
]


def chronicum_number(partition: int, offset: int) -> int:
    """Return the number of the chronicum that the record at this place creates.

    It is the same in every rebuild, eight bytes, and grows with the log, so that new chronica
    stand together at the right of each index.
    """
    return offset * PARTITIONS_MAX + partition


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """A partition as its claimant found it: all that fences and identifies.

    Attributes:
        generation: of the derived schema claimed in.
        partition: of the acta topic.
        epoch: raised by each claim; a batch of an older one is refused.
        next_offset: the first offset that is not recorded yet.
        last_offset: offset of the last record, -1 if there was none.
        last_timestamp_ms: its timestamp.
        last_checksum: sha256 of its key and value.
    """

    generation: int
    partition: int
    epoch: int
    next_offset: int
    last_offset: int
    last_timestamp_ms: int
    last_checksum: bytes


class HeadRow(NamedTuple):
    """The state of one chronicum: all that a decision needs of it."""

    number: int
    digest: UUID
    tenant: str
    id: str
    owner: str
    created_at_ms: int
    last_activity_at_ms: int
    last_seq: int


class ActumRow(NamedTuple):
    """One recorded actum. Times in milliseconds of the Unix epoch."""

    chronicum: int
    seq: int
    offset: int
    at_ms: int
    dedupe: UUID
    kind: str
    actor_kind: str
    id: str
    actor: str
    call_id: str | None
    key: str | None
    metadata: str | None
    content: str


class OutcomeRow(NamedTuple):
    """One decision that is not an actum of its own."""

    offset: int
    outcome: str
    reason: str | None
    current_seq: int | None
    chronicum: int | None
    seq: int | None
    kept: UUID | None


class DeadLetterRow(NamedTuple):
    """One record that can't be decided, whole."""

    offset: int
    timestamp_ms: int
    reason: str
    detail: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class KeptRow(NamedTuple):
    """An answer kept by submission id: a later copy of that submission gets it again."""

    outcome: str
    reason: str | None
    current_seq: int | None
    chronicum: int | None


@dataclass(slots=True)
class Batch:
    """All that one transaction writes for one partition, and how far it moves it."""

    next_offset: int
    last_offset: int
    last_timestamp_ms: int
    last_checksum: bytes
    heads: list[HeadRow] = field(default_factory=list)
    acta: list[ActumRow] = field(default_factory=list)
    outcomes: list[OutcomeRow] = field(default_factory=list)
    dead_letters: list[DeadLetterRow] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a batch has to know before it can be decided: digests to look up, places to check."""

    heads: tuple[UUID, ...]
    dedupes: tuple[UUID, ...]
    kept: tuple[UUID, ...]
    first_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class Found:
    """What of it there is.

    Attributes:
        heads: by digest of the chronicum.
        firsts: seq of the first actum, by dedupe digest.
        kept: answers kept by submission id, by its digest.
        verdicts: (reason, detail) by offset.
    """

    heads: dict[UUID, HeadRow]
    firsts: dict[UUID, int]
    kept: dict[UUID, KeptRow]
    verdicts: dict[int, tuple[str, str]]
