"""What the log can't do, in sentences for the person who starts it."""

from __future__ import annotations

__all__ = ["LogRefusedError", "LogUnavailableError"]


class LogUnavailableError(Exception):
    """Kafka can't be reached, or does not answer. Nothing was changed; it may come back."""


class LogRefusedError(Exception):
    """The log is not what it must be; waiting doesn't mend it, a person must."""
