"""How Postgres fails, sorted by what the recorder must do about it."""

from __future__ import annotations

import psycopg

__all__ = [
    "ClaimLostError",
    "DataRefusedError",
    "PostgresUnavailableError",
    "SchemaRefusedError",
    "sorted_error",
]

_DATA_CLASSES = ("22", "23", "54")


class PostgresUnavailableError(Exception):
    """Postgres can't be reached or can't do it now. Waiting helps; nothing was half done."""


class ClaimLostError(Exception):
    """Another claimed the partition, or moved it: whatever this process knows of it is void."""


class DataRefusedError(Exception):
    """Postgres refused the data itself (SQLSTATE class 22, 23 or 54). Waiting doesn't help."""


class SchemaRefusedError(Exception):
    """The database is not what it must be; a person must mend it."""


def sorted_error(error: psycopg.Error) -> Exception:
    """Return the error that says what to do about a psycopg error."""
    state = error.sqlstate or ""
    if state[:2] in _DATA_CLASSES or (not state and isinstance(error, psycopg.DataError)):
        # The first line only: the rest quotes the data, which must not get into logs.
        return DataRefusedError(f"SQLSTATE {state}: {str(error).splitlines()[0]:.300}")
    return PostgresUnavailableError(f"{type(error).__name__}: {str(error).strip():.300}")
