"""What a database is now: its schema, and which partitions are recorded. For readiness."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import AsyncConnection

from chronica.projections._claims import live_generation, sharing
from chronica.projections._errors import sorted_error
from chronica.projections._migrate import read_revision

__all__ = ["DatabaseFacts", "count_dead_letters", "read_facts"]


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


async def count_dead_letters(conn: AsyncConnection[Any], topic: str) -> dict[str, int]:
    """Return how many dead letters of a topic are kept, by reason.

    Raises:
        PostgresUnavailableError: Postgres did not answer.
    """
    try:
        generation = await live_generation(conn)
        cursor = await conn.execute(
            f"SELECT reason, count(*) FROM chronica_g{generation}.dead_letters WHERE topic = %s "
            "GROUP BY reason ORDER BY reason",
            [topic],
        )
        return dict(await cursor.fetchall())
    except psycopg.Error as error:
        raise sorted_error(error) from error
