"""Context windows: the watermark of the partition and the rows, in one statement (rule 3.7).

That statement brings a window up to about a megabyte. The few that are longer name what is left,
and another streams it (``_window_streams``): acta never change and seqs have no gaps, so both
together are what one snapshot would have shown (docs/decisions/0012).
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
from chronica.projections._window_sql import NOT_FOUND, first_page

__all__ = [
    "ACTUM_COLUMNS",
    "COLUMNS",
    "ChronicumView",
    "StoredActum",
    "Window",
    "WindowRest",
    "read_window",
    "stored_actum",
]

_TOPIC = "acta"


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
class WindowRest:
    """What the first statement left of a window: the acta of its query between two seqs.

    Attributes:
        generation: the derived schema they stand in.
        chronicum: its id.
        number: its number there.
        query: the window's.
        after_seq: the whole window lies above it; None where the first statement did not look so
            far, and brought no acta.
        page_seq: everything up to here came with the first statement.
        last_seq: the chronicum's last when the window was opened.
    """

    generation: int
    chronicum: str
    number: int
    query: WindowQuery
    after_seq: int | None
    page_seq: int
    last_seq: int


@dataclass(frozen=True, slots=True)
class Window:
    """What one statement saw.

    Attributes:
        generation: the live one; the statement read the generation it was asked for.
        watermark: next offset of the chronicum's partition: everything below it is in the window.
        chronicum: None if there is none for this owner.
        acta: oldest first.
        rest: what else there is, newer than these; None if that is all.
    """

    generation: int
    watermark: int
    chronicum: ChronicumView | None
    acta: tuple[StoredActum, ...]
    rest: WindowRest | None = None


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
COLUMNS = ", ".join(f"w.{column}" for column in ACTUM_COLUMNS)
"""The same, of ``w``, as the walks over windows name them."""
_HEAD_COLUMNS = 9

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
    """Read a chronicum and, with a query, the beginning of its window.

    The beginning is all of it unless it is long (``PAGE_BYTES``). ``whole_calls`` is not applied.

    Args:
        conn: in autocommit mode, with the session options WINDOW_SESSION.
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
    schema = f"chronica_g{generation}"
    span, page = "", ""
    if query is not None:
        span = ", span.after_seq, page.end_seq, a.*"
        page = first_page(query, schema, COLUMNS, parameters)
    statement = f"""
        SELECT live.generation, claims.next_offset, c.owner, c.created_at, c.last_activity_at,
            c.last_seq, c.number{span}
        FROM chronica.live
        JOIN {schema}.claims ON claims.topic = %(topic)s AND claims.partition = %(partition)s
        LEFT JOIN {schema}.chronica c ON c.digest = %(digest)s
            AND (%(owner)s::text IS NULL OR c.owner = %(owner)s::text)
        {page}
    """
    try:
        rows = await (await conn.execute(statement, parameters)).fetchall()
    except psycopg.Error as error:
        raise sorted_error(error) from error
    if not rows:
        raise PostgresUnavailableError("No recorder has pinned the log in this database yet.")
    live, watermark, found_owner, created_at, last_activity_at, last_seq, number = rows[0][:7]
    if number is None:
        return Window(live, watermark, None, ())
    view = ChronicumView(
        chronicum, from_postgres(found_owner), created_at, last_activity_at, last_seq
    )
    if query is None:
        return Window(live, watermark, view, ())
    after_seq, end_seq = rows[0][7:_HEAD_COLUMNS]
    acta = tuple(
        stored_actum(chronicum, row[_HEAD_COLUMNS:]) for row in rows if row[-1] is not None
    )
    rest = None
    if after_seq == NOT_FOUND:
        rest = WindowRest(generation, chronicum, number, query, None, 0, last_seq)
    elif end_seq is not None:
        rest = WindowRest(generation, chronicum, number, query, after_seq, end_seq - 1, last_seq)
    return Window(live, watermark, view, acta, rest)
