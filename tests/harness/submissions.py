"""Submissions and records to build tests from; pure."""

from __future__ import annotations

from typing import Any

from chronica.log import Submission, encode_submission, partition_key
from chronica.recorder._fold import LogRecord, Read, read

__all__ = ["actum", "create", "read_one", "record_of"]

_ACTUM: dict[str, Any] = {
    "type": "actum",
    "id": "s1",
    "tenant": "t",
    "chronicum": "dinner",
    "owner": "ann",
    "kind": "message",
    "actor_kind": "human",
    "actor": "ann",
    "content": "hello",
}
_CREATE: dict[str, Any] = {
    "type": "create",
    "id": "c1",
    "tenant": "t",
    "chronicum": "dinner",
    "owner": "ann",
}


def actum(**changes: Any) -> Submission:
    """Return a good submission of an actum, with some fields changed."""
    return Submission(**(_ACTUM | changes))


def create(**changes: Any) -> Submission:
    """Return a good submission that creates a chronicum, with some fields changed."""
    return Submission(**(_CREATE | changes))


def record_of(
    submission: Submission, offset: int = 0, timestamp_ms: int | None = None
) -> LogRecord:
    """Return a submission's record, a second after the one at the offset before."""
    return LogRecord(
        offset,
        1_700_000_000_000 + 1000 * offset if timestamp_ms is None else timestamp_ms,
        partition_key(submission.tenant, submission.chronicum),
        encode_submission(submission),
    )


def read_one(record: LogRecord) -> Read:
    """Read a record of a topic with one partition."""
    return read(record, topic="acta", partition=0, partitions=1)
