"""What a database is now: its schema, and which partitions are recorded. For readiness."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import AsyncConnection

from chronica.projections._claims import live_generation, sharing
from chronica.projections._errors import sorted_error
from chronica.projections._migrate import read_revision

__all__ = ["DatabaseFacts", "read_facts"]


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    """What a database is.

    Attributes:
        revision: of its schema, None if it was never migrated.
        held: the partitions that a live recorder holds.
    """

    revision: str | None
    held: frozenset[int]


async def read_facts(conn: AsyncConnection[Any]) -> DatabaseFacts:
    """Return what the database is.

    Raises:
        PostgresUnavailableError: Postgres did not answer.
    """
    try:
        revision = await read_revision(conn)
        if revision is None:
            return DatabaseFacts(None, frozenset())
        now = await sharing(conn, await live_generation(conn))
    except psycopg.Error as error:
        raise sorted_error(error) from error
    return DatabaseFacts(revision, now.held)
