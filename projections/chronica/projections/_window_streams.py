"""The rest of a long window, streamed: one statement, one actum in hand at a time.

psycopg's single-row mode holds no more than the row that is being read, however large the window
is and however slowly it is taken. Chunks of rows would be a little faster, and with acta of 16 MiB
each they would not be bounded.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, cast

import psycopg
from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus

from chronica.acta import ActumKind
from chronica.projections._connect import hang_up, within
from chronica.projections._errors import PostgresUnavailableError, sorted_error
from chronica.projections._unpaired import Unpaired
from chronica.projections._window_sql import acta_between, after_seq, calls_between
from chronica.projections._windows import COLUMNS, StoredActum, WindowRest, stored_actum

__all__ = ["stream_rest"]

_BATCH_CHARS: Final = 16 * 1024  # some milliseconds of work: whoever reads little waits no longer
_BATCH_ROWS: Final = 1000
_WALK_S: Final = 60.0  # to add up the characters of some ten million acta, cold

_Row = tuple[Any, ...]


@asynccontextmanager
async def stream_rest(
    conn: AsyncConnection[Any], rest: WindowRest, *, timeout_s: float
) -> AsyncIterator[AsyncIterator[list[StoredActum]]]:
    """Begin to stream the rest of a window; where calls must be whole, the window from its start.

    When the block is entered, the first batch is there. A batch is some 16 KiB of text, or one
    actum if that is larger. A connection that is left before the end is dropped, so that Postgres
    stops at once.

    Args:
        conn: in autocommit mode, with the session options WINDOW_SESSION.
        rest: of a window that ``read_window`` opened.
        timeout_s: how long Postgres may take for a batch.

    Raises:
        PostgresUnavailableError: Postgres did not answer, or has lost what the window was opened
            on; also while the batches are read.
    """
    window_after, unpaired = rest.after_seq, array("q")
    if window_after is None:
        window_after = await _after_seq(conn, rest)
    after = max(window_after, rest.page_seq)
    if rest.query.whole_calls:
        after = window_after
        unpaired = await _unpaired(conn, rest, after, timeout_s)
    parameters = {"number": rest.number, "after_seq": after, "last_seq": rest.last_seq}
    statement = acta_between(rest.query, _schema(rest), COLUMNS, parameters)
    async with _batches(conn, statement, parameters, timeout_s) as batches:
        acta = _acta(rest.chronicum, batches, unpaired)
        first: list[StoredActum] = await anext(acta, [])

        async def all_of_it() -> AsyncIterator[list[StoredActum]]:
            yield first
            async for batch in acta:
                yield batch

        yield all_of_it()


async def _acta(
    chronicum: str, batches: AsyncIterator[list[_Row]], unpaired: array[int]
) -> AsyncGenerator[list[StoredActum], None]:
    last_seq = 0
    async for batch in batches:
        acta = [stored_actum(chronicum, row) for row in batch]
        for actum in acta:
            assert actum.seq > last_seq, "the statement walks upwards"
            last_seq = actum.seq
        if unpaired:
            acta = [actum for actum in acta if not _holds(unpaired, actum.seq)]
        yield acta


def _holds(seqs: array[int], seq: int) -> bool:
    place = bisect_left(seqs, seq)
    return place < len(seqs) and seqs[place] == seq


def _schema(rest: WindowRest) -> str:
    return f"chronica_g{rest.generation}"


async def _after_seq(conn: AsyncConnection[Any], rest: WindowRest) -> int:
    """Return the seq that the window lies above."""
    parameters: dict[str, Any] = {"number": rest.number, "last_seq": rest.last_seq}
    statement = after_seq(rest.query, _schema(rest), parameters)

    async def ask() -> _Row | None:
        return await (await conn.execute(statement, parameters)).fetchone()

    try:
        row = await within(conn, ask(), timeout_s=_WALK_S)
    except psycopg.Error as error:
        raise sorted_error(error) from error
    if row is None:
        raise _lost()
    return int(row[0])


async def _unpaired(
    conn: AsyncConnection[Any], rest: WindowRest, after: int, timeout_s: float
) -> array[int]:
    """Return the seqs of the window's tool calls that are not whole, ascending."""
    unpaired = Unpaired()
    if rest.query.kinds and ActumKind.TOOL_REQUEST not in rest.query.kinds:
        return unpaired.seqs()
    parameters = {"number": rest.number, "after_seq": after, "last_seq": rest.last_seq}
    statement = calls_between(rest.query, _schema(rest), parameters)
    async with _batches(conn, statement, parameters, timeout_s) as batches:
        async for batch in batches:
            for seq, kind, call_id in batch:
                unpaired.add(seq, kind, call_id)
    return unpaired.seqs()


@asynccontextmanager
async def _batches(
    conn: AsyncConnection[Any], statement: str, parameters: dict[str, Any], timeout_s: float
) -> AsyncIterator[AsyncIterator[list[_Row]]]:
    rows = cast("AsyncGenerator[_Row, None]", conn.cursor().stream(statement, parameters))

    async def batches() -> AsyncIterator[list[_Row]]:
        try:
            batch = await within(conn, _batch(rows), timeout_s=timeout_s)
            if not batch:
                raise _lost()
            if batch[0][0] is None:
                return  # the chronicum is there, and nothing of it is wanted
            while batch:
                yield batch
                batch = await within(conn, _batch(rows), timeout_s=timeout_s)
        except psycopg.Error as error:
            raise sorted_error(error) from error

    try:
        yield batches()
    finally:
        if conn.pgconn.transaction_status == TransactionStatus.ACTIVE:
            hang_up(conn)
        await rows.aclose()


def _lost() -> PostgresUnavailableError:
    # A crash took unsynced commits back; the recorder will make them again.
    return PostgresUnavailableError("Postgres has lost what the window was opened on.")


async def _batch(rows: AsyncGenerator[_Row, None]) -> list[_Row]:
    batch: list[_Row] = []
    chars = 0
    async for row in rows:
        batch.append(row)
        chars += sum(len(value) for value in row if isinstance(value, str))
        if chars >= _BATCH_CHARS or len(batch) >= _BATCH_ROWS:
            break
    return batch
