"""Every error of Chronica's Python interface. Each says what was kept and what to do next."""

from __future__ import annotations

__all__ = [
    "AppendUnknownError",
    "ChronicaError",
    "ChronicumExistsError",
    "ChronicumNotFoundError",
    "DecisionPendingError",
    "EmptyOwnerIDError",
    "ExpectedSeqUnsupportedError",
    "IdempotencyUnsupportedError",
    "InternalError",
    "InvalidActumError",
    "InvalidIdempotencyKeyError",
    "InvalidOwnerIDError",
    "InvalidWindowError",
    "NotAppendedError",
    "ReadTimeoutError",
    "SequenceConflictError",
    "StoreNotInstalledError",
    "StoreUnavailableError",
]


class ChronicaError(Exception):
    """The base of all of them."""


class InvalidOwnerIDError(ChronicaError, ValueError):
    """The owner is not usable (too long, or not a string)."""


class EmptyOwnerIDError(InvalidOwnerIDError):
    """No owner was given. Nothing was read or written."""

    def __init__(self) -> None:
        super().__init__("The owner must not be empty: name the owner of the chronicum.")


class InvalidActumError(ChronicaError, ValueError):
    """An actum breaks a rule. Nothing was written.

    Attributes:
        field: the field that breaks it.
        rule: what the field must be.
    """

    def __init__(self, field: str, rule: str) -> None:
        super().__init__(f"Invalid actum: {field} {rule}.")
        self.field = field
        self.rule = rule


class InvalidIdempotencyKeyError(ChronicaError, ValueError):
    """An idempotency key is empty or too long. Nothing was written.

    An empty key is an error, not "no key": dropping it in silence is how duplicates get in.
    """


class InvalidWindowError(ChronicaError, ValueError):
    """The options of a window contradict each other or are out of range."""


class IdempotencyUnsupportedError(ChronicaError):
    """A key was given and the store cannot dedupe. Nothing was created."""

    def __init__(self) -> None:
        super().__init__(
            "This store cannot deduplicate, so it must not be given an idempotency key: "
            "use a store that implements IdempotentStore."
        )


class ExpectedSeqUnsupportedError(ChronicaError):
    """``expected_seq`` was given and the store cannot check it. Nothing was created."""

    def __init__(self) -> None:
        super().__init__(
            "This store cannot check expected_seq and write in one step, so it must not be given "
            "one: use a store that implements DecidingStore."
        )


class ChronicumNotFoundError(ChronicaError, LookupError):
    """There is no such chronicum for this owner; missing and foreign look the same."""

    def __init__(self, chronicum_id: str) -> None:
        super().__init__(f"Chronicum {chronicum_id!r} was not found.")
        self.chronicum_id = chronicum_id


class ChronicumExistsError(ChronicaError):
    """A chronicum of this id exists already. Nothing was changed."""

    def __init__(self, chronicum_id: str) -> None:
        super().__init__(f"Chronicum {chronicum_id!r} exists already.")
        self.chronicum_id = chronicum_id


class SequenceConflictError(ChronicaError):
    """``expected_seq`` is not the chronicum's last seq. Nothing was recorded.

    Attributes:
        current_seq: the chronicum's last seq when it was decided; read from there and try again.
    """

    def __init__(self, chronicum_id: str, *, expected_seq: int, current_seq: int) -> None:
        super().__init__(
            f"Chronicum {chronicum_id!r} is at seq {current_seq}, not {expected_seq}: "
            "read what came in between and try again."
        )
        self.chronicum_id = chronicum_id
        self.expected_seq = expected_seq
        self.current_seq = current_seq


class StoreNotInstalledError(ChronicaError, ImportError):
    """The log store's package, or something that it needs, is not installed."""

    def __init__(self, missing: str) -> None:
        super().__init__(
            f"The log store cannot be used here ({missing}). Nothing was read or written: install "
            "it with `pip install 'chronica[server]'`, or use MemoryStore in tests."
        )


class StoreUnavailableError(ChronicaError):
    """The store cannot be reached. A read changed nothing; try again."""


class ReadTimeoutError(ChronicaError, TimeoutError):
    """The projection did not reach the asked position in time. Nothing was changed; try again."""


class NotAppendedError(StoreUnavailableError):
    """The submission was never handed to Kafka: nothing was recorded; try again.

    Attributes:
        retry_after_s: when to try again, in seconds.
    """

    def __init__(self, message: str, *, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class AppendUnknownError(ChronicaError, TimeoutError):
    """The submission was handed to Kafka and no answer came in time: it may yet be recorded.

    Attributes:
        retry_key: an idempotency key with which a retry is safe: the caller's key, else the
            submission id.
    """

    def __init__(self, message: str, *, retry_key: str) -> None:
        super().__init__(message)
        self.retry_key = retry_key


class DecisionPendingError(ChronicaError, TimeoutError):
    """The submission is durable in Kafka, but was not decided within the wait.

    Attributes:
        position: its position token; its outcome can be asked for later.
        submission_id: the id the actum has if it is recorded.
        retry_key: an idempotency key with which a retry is safe.
    """

    def __init__(self, *, position: str, submission_id: str, retry_key: str) -> None:
        super().__init__(
            "The submission is kept in the log and will be decided, but not within the wait: "
            "ask for its outcome later, or retry with the same key."
        )
        self.position = position
        self.submission_id = submission_id
        self.retry_key = retry_key


class InternalError(ChronicaError):
    """The recorder could not store this one submission; it is kept as a dead letter."""
