"""What the log can't do, in sentences for the person who starts it."""

from __future__ import annotations

from chronica.acta import ChronicaError, StoreUnavailableError

__all__ = ["LogRefusedError", "LogUnavailableError"]


class LogUnavailableError(StoreUnavailableError):
    """Kafka can't be reached, or does not answer. Nothing was changed; it may come back."""


class LogRefusedError(ChronicaError):
    """The log is not what it must be; waiting doesn't mend it, a person must."""
