"""What comes after: the next acta of many chronica at once, for those who follow them live."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg
from psycopg import AsyncConnection

from chronica.projections._errors import sorted_error
from chronica.projections._windows import ACTUM_COLUMNS, StoredActum, stored_actum

__all__ = ["Followed", "Following", "read_after"]


@dataclass(frozen=True, slots=True)
class Followed:
    """A chronicum, and how far it has been followed.

    Attributes:
        digest: of its tenant and id.
        chronicum: its id.
        after: the seq after which to read on.
    """

    digest: UUID
    chronicum: str
    after: int


@dataclass(frozen=True, slots=True)
class Following:
    """What comes next in a chronicum.

    Attributes:
        acta: in order, as many as were asked for.
        last_seq: how far the chronicum goes.
    """

    acta: list[StoredActum]
    last_seq: int


async def read_after(
    conn: AsyncConnection[Any],
    *,
    generation: int,
    followed: Sequence[Followed],
    rows_max: int,
    bytes_max: int,
) -> dict[UUID, Following]:
    """Return the next acta of each chronicum, in order; those without any are left out.

    Args:
        conn: in autocommit mode.
        generation: of the derived schema.
        followed: each chronicum once.
        rows_max: at most so many acta of each.
        bytes_max: nor more than so many bytes of text of each; but one actum, whatever its size.

    Raises:
        PostgresUnavailableError: Postgres did not answer.
    """
    schema = f"chronica_g{generation}"
    columns = ", ".join(f"a.{column}" for column in ACTUM_COLUMNS)
    names = ", ".join(f"a.{column.partition('::')[0]}" for column in ACTUM_COLUMNS)
    statement = f"""
        SELECT f.digest, c.last_seq, {names}
        FROM unnest(%(digests)s::uuid[], %(afters)s::bigint[]) AS f (digest, after)
        JOIN {schema}.chronica c ON c.digest = f.digest
        CROSS JOIN LATERAL (
            SELECT a.*, sum(a.size) OVER (ORDER BY a.seq) AS total
            FROM (
                SELECT {columns},
                    octet_length(a.content) + coalesce(octet_length(a.metadata), 0) AS size
                FROM {schema}.acta a
                WHERE a.chronicum = c.number AND a.seq > f.after
                ORDER BY a.seq LIMIT %(rows_max)s
            ) a
        ) a
        WHERE a.total <= %(bytes_max)s OR a.seq = f.after + 1
        ORDER BY f.digest, a.seq
    """
    parameters = {
        "digests": [each.digest for each in followed],
        "afters": [each.after for each in followed],
        "rows_max": rows_max,
        "bytes_max": bytes_max,
    }
    ids = {each.digest: each.chronicum for each in followed}
    try:
        rows = await (await conn.execute(statement, parameters)).fetchall()
    except psycopg.Error as error:
        raise sorted_error(error) from error
    found: dict[UUID, Following] = {}
    for digest, last_seq, *actum in rows:
        following = found.setdefault(digest, Following([], last_seq))
        following.acta.append(stored_actum(ids[digest], actum))
    return found
