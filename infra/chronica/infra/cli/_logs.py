"""Logging of the processes: lines on standard error, never content, never a secret."""

from __future__ import annotations

import logging
import os
import sys
import time

from ._terminal import CommandError

__all__ = ["set_up_logging"]

_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
# Each retry of theirs is an ERROR or a WARNING to them. What it means for us, the recorder and the
# store say themselves, once; the rest is shown with CHRONICA_LOG_LEVEL=DEBUG.
_CHATTY = {
    "aiokafka": logging.CRITICAL,
    "alembic": logging.WARNING,
    "httpcore": logging.WARNING,
    "httpx": logging.WARNING,
    "kafka": logging.CRITICAL,
    "psycopg": logging.ERROR,
    "uvicorn.access": logging.WARNING,
}


class _StandardError(logging.Handler):
    """Writes to what standard error is at that moment: while Rich draws there, it is Rich.

    So a line comes above a spinner or a progress bar, and is not overwritten by it.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except Exception:  # noqa: BLE001  (a log line ends nothing)
            self.handleError(record)


def set_up_logging(default: str = "WARNING") -> None:
    """Send log lines to standard error, from the level that ``CHRONICA_LOG_LEVEL`` names on.

    Args:
        default: the level when the variable isn't set.

    Raises:
        CommandError: the variable names no level.
    """
    level = os.environ.get("CHRONICA_LOG_LEVEL", "").upper() or default
    if level not in _LEVELS:
        raise CommandError(
            f"CHRONICA_LOG_LEVEL is {level!r}, which is no level: set it to one of "
            f"{', '.join(_LEVELS)}."
        )
    formatter = logging.Formatter(
        "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s %(message)s", "%Y-%m-%dT%H:%M:%S"
    )
    formatter.converter = time.gmtime
    handler = _StandardError()
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name, floor in _CHATTY.items():
        logging.getLogger(name).setLevel(logging.NOTSET if level == "DEBUG" else floor)
