"""What can go wrong with a batch: what an error of Kafka's means, and what callers are told."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from aiokafka import errors

from chronica.acta import AppendUnknownError, InvalidActumError, NotAppendedError
from chronica.log._errors import LogRefusedError

__all__ = ["Failure", "at_fault", "classify", "denied", "describe", "not_appended", "unknown"]


class Failure(Enum):
    """What an error of a batch means."""

    DOUBT = auto()
    """Waiting may mend it; whether the batch is in the log is not known."""
    RECORD = auto()
    """One of its records is at fault."""
    UNCLEAR = auto()
    """Kafka answered that something is wrong, not what."""
    DENIED = auto()
    """A person must mend it."""


_MEANINGS: Final[tuple[tuple[Failure, tuple[type[Exception], ...]], ...]] = (
    (
        Failure.RECORD,
        (
            errors.MessageSizeTooLargeError,
            errors.RecordListTooLargeError,
            errors.InvalidTimestampError,
            errors.UnsupportedForMessageFormatError,
            errors.PolicyViolationError,
        ),
    ),
    (
        Failure.DENIED,
        (
            errors.TopicAuthorizationFailedError,
            errors.ClusterAuthorizationFailedError,
            errors.TransactionalIdAuthorizationFailed,
            errors.InvalidTopicError,
        ),
    ),
    # UnknownError also stands for every code that aiokafka 0.14 has no name for, among them 87,
    # InvalidRecord. CorruptRecord is a checksum that failed: on the way, or by a record of ours.
    (
        Failure.UNCLEAR,
        (errors.UnknownError, errors.CorruptRecordException, errors.InvalidRequestError),
    ),
)


def classify(error: Exception) -> Failure:
    """Return what an error means; one that nobody foresaw leaves the batch in doubt."""
    for failure, kinds in _MEANINGS:
        if isinstance(error, kinds):
            return failure
    return Failure.DOUBT


def describe(error: BaseException) -> str:
    """Return an error in a few words, with the limit that it is about."""
    if isinstance(error, errors.MessageSizeTooLargeError):
        return "it is over max.message.bytes of the topic (MessageSizeTooLargeError)"
    if isinstance(error, errors.RecordListTooLargeError):
        return "it is over segment.bytes of the topic (RecordListTooLargeError)"
    words = str(error)
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def not_appended(reason: str) -> NotAppendedError:
    """Say that nobody has seen the submission."""
    return NotAppendedError(
        f"The submission was not handed to Kafka: {reason}. Nothing was recorded: try again."
    )


def unknown(retry_key: str, reason: str) -> AppendUnknownError:
    """Say that it may be in the log."""
    return AppendUnknownError(
        "The submission was handed to Kafka, and whether it is in the log is not known: "
        f"{reason}. Retry with the idempotency key {retry_key!r}: it can't be recorded twice.",
        retry_key=retry_key,
    )


def at_fault(size_bytes: int, topic: str, reason: str) -> InvalidActumError:
    """Say that Kafka won't have this one record."""
    return InvalidActumError(
        "content",
        f"makes a record of {size_bytes} bytes, which Kafka refuses for {topic}: {reason}. "
        "Nothing was recorded, and its neighbours are not affected: record less at once, or "
        "mend the topic's setting",
    )


def denied(topic: str, retry_key: str, reason: str) -> LogRefusedError:
    """Say that this writer may not write."""
    return LogRefusedError(
        f"Kafka does not let this writer write to {topic} ({reason}): grant it Write on the topic, "
        f"then retry with the idempotency key {retry_key!r}."
    )
