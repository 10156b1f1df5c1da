"""Context windows: the watermark of the partition and the rows, in one statement (rule 3.7).

With filters, the newest of each wanted pair of kinds are found by an index of their own and merged,
so a window costs the same in a chronicum of a thousand acta and of a million, however rare its
kinds are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import psycopg
from psycopg import AsyncConnection

from chronica.acta import ActorKind, ActumKind, WindowQuery
from chronica.projections._digests import chronicum_digest
from chronica.projections._errors import PostgresUnavailableError, sorted_error
from chronica.projections._text import from_postgres, to_postgres

__all__ = ["ACTUM_COLUMNS", "ChronicumView", "StoredActum", "Window", "read_window", "stored_actum"]

_TOPIC = "acta"
_INT_MAX = 2**63 - 1


class StoredActum(NamedTuple):
    """An actum as it is stored; ``metadata`` is JSON source text."""

    id: str
    chronicum_id: str
    kind: ActumKind
    actor_kind: ActorKind
    actor: str
    content: str
    call_id: str | None
    metadata: str | None
    at: datetime
    seq: int


class ChronicumView(NamedTuple):
    """A chronicum as it is stored."""

    id: str
    owner_id: str
    created_at: datetime
    last_activity_at: datetime
    last_seq: int


@dataclass(frozen=True, slots=True)
class Window:
    """What one statement saw.

    Attributes:
        generation: the live one; the statement read the generation it was asked for.
        watermark: next offset of the chronicum's partition: everything below it is in the window.
        chronicum: None if there is none for this owner.
        acta: oldest first.
    """

    generation: int
    watermark: int
    chronicum: ChronicumView | None
    acta: tuple[StoredActum, ...]


ACTUM_COLUMNS = (
    "id",
    "kind::text",
    "actor_kind::text",
    "actor",
    "content",
    "call_id",
    "metadata",
    "at",
    "seq",
)
_COLUMNS = ", ".join(f"a.{column}" for column in ACTUM_COLUMNS)

_KINDS = {kind.value: kind for kind in ActumKind}
_ACTOR_KINDS = {kind.value: kind for kind in ActorKind}


def stored_actum(chronicum_id: str, row: Sequence[Any]) -> StoredActum:
    """Return the actum of a row of ``ACTUM_COLUMNS``."""
    actum_id, kind, actor_kind, actor, content, call_id, metadata, at, seq = row
    return StoredActum(
        from_postgres(actum_id),
        chronicum_id,
        _KINDS[kind],
        _ACTOR_KINDS[actor_kind],
        from_postgres(actor),
        from_postgres(content),
        None if call_id is None else from_postgres(call_id),
        None if metadata is None else from_postgres(metadata),
        at,
        seq,
    )


async def read_window(
    conn: AsyncConnection[Any],
    *,
    generation: int,
    partition: int,
    tenant: str,
    owner: str | None,
    chronicum: str,
    query: WindowQuery | None,
) -> Window:
    """Read a chronicum and, with a query, its window (``whole_calls`` is the caller's to apply).

    Args:
        conn: in autocommit mode: the statement is its own snapshot.
        generation: of the derived schema.
        partition: the chronicum's.
        tenant: whose it is.
        owner: who asks: someone else's chronicum is none; None asks without a guard.
        chronicum: its id.
        query: which acta, validated; None for the chronicum alone.

    Raises:
        PostgresUnavailableError: Postgres did not answer.
    """
    parameters: dict[str, Any] = {
        "topic": _TOPIC,
        "partition": partition,
        "digest": chronicum_digest(tenant, chronicum),
        "owner": None if owner is None else to_postgres(owner),
    }
    selected = f"SELECT {_COLUMNS} FROM {{schema}}.acta a WHERE false"
    if query is not None:
        selected = _selection(query, parameters)
    schema = f"chronica_g{generation}"
    statement = f"""
        SELECT live.generation, claims.next_offset, c.owner, c.created_at, c.last_activity_at,
            c.last_seq, a.*
        FROM chronica.live
        JOIN {schema}.claims ON claims.topic = %(topic)s AND claims.partition = %(partition)s
        LEFT JOIN {schema}.chronica c ON c.digest = %(digest)s
            AND (%(owner)s::text IS NULL OR c.owner = %(owner)s::text)
        LEFT JOIN LATERAL ({selected.format(schema=schema)}) a ON true
        ORDER BY a.seq
    """
    try:
        rows = await (await conn.execute(statement, parameters)).fetchall()
    except psycopg.Error as error:
        raise sorted_error(error) from error
    if not rows:
        raise PostgresUnavailableError("No recorder has pinned the log in this database yet.")
    live, watermark, found_owner, created_at, last_activity_at, last_seq = rows[0][:6]
    view = None
    if found_owner is not None:
        view = ChronicumView(
            chronicum, from_postgres(found_owner), created_at, last_activity_at, last_seq
        )
    acta = tuple(stored_actum(chronicum, row[6:]) for row in rows if row[6] is not None)
    return Window(live, watermark, view, acta)


def _selection(query: WindowQuery, parameters: dict[str, Any]) -> str:
    """Return the query of the wanted rows, newest first, within a LATERAL on ``c``."""
    limit = ""
    if query.last_n > 0:
        limit = "LIMIT %(last_n)s"
        parameters["last_n"] = min(query.last_n, _INT_MAX)
    if query.kinds or query.actor_kinds:
        newest = _filtered(query, parameters, limit)
    else:
        newest = f"""
            SELECT {_COLUMNS}, a.chars FROM {{schema}}.acta a
            WHERE a.chronicum = c.number ORDER BY a.seq DESC {limit}
        """
    names = ", ".join(f"a.{column.partition('::')[0]}" for column in ACTUM_COLUMNS)
    if query.max_chars is None:
        return f"SELECT {names} FROM ({newest}) a"
    parameters["max_chars"] = min(query.max_chars, _INT_MAX)
    return f"""
        SELECT {names} FROM (
            SELECT a.*, sum(a.chars) OVER (ORDER BY a.seq DESC) AS total FROM ({newest}) a
        ) a WHERE a.total <= %(max_chars)s
    """


def _filtered(query: WindowQuery, parameters: dict[str, Any], limit: str) -> str:
    # Sets: a kind that is named twice must not give its acta twice.
    kinds, actor_kinds = set(query.kinds or ActumKind), set(query.actor_kinds or ActorKind)
    if not limit:
        # All of them are wanted, so there is nothing to merge; and Postgres, which can't guess how
        # few a pair has, would rather read the whole table than look each of them up.
        parameters |= {"kinds": sorted(kinds), "actor_kinds": sorted(actor_kinds)}
        return f"""
            SELECT {_COLUMNS}, a.chars FROM {{schema}}.acta a
            WHERE a.chronicum = c.number AND a.kind = ANY(%(kinds)s::chronica.actum_kind[])
                AND a.actor_kind = ANY(%(actor_kinds)s::chronica.actor_kind[])
        """
    pairs = [(kind, actor_kind) for kind in sorted(kinds) for actor_kind in sorted(actor_kinds)]
    parameters["kinds"] = [kind for kind, _actor in pairs]
    parameters["actor_kinds"] = [actor for _kind, actor in pairs]
    return f"""
        SELECT {_COLUMNS}, a.chars FROM (
            SELECT newest.seq
            FROM unnest(
                %(kinds)s::chronica.actum_kind[], %(actor_kinds)s::chronica.actor_kind[]
            ) AS pair (kind, actor_kind)
            CROSS JOIN LATERAL (
                SELECT w.seq FROM {{schema}}.acta w
                WHERE w.chronicum = c.number AND w.kind = pair.kind
                    AND w.actor_kind = pair.actor_kind
                ORDER BY w.seq DESC {limit}
            ) newest
            ORDER BY newest.seq DESC {limit}
        ) wanted
        JOIN {{schema}}.acta a ON a.chronicum = c.number AND a.seq = wanted.seq
    """
