"""Connections: how every part of this process reaches Postgres."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

import psycopg
from psycopg import AsyncConnection

from chronica.projections._errors import PostgresUnavailableError

__all__ = ["connect", "hang_up", "session", "within"]

_T = TypeVar("_T")

_CONNECT_TIMEOUT_S = 5
# What the role or the database sets must not change what is read and written: times come back in
# UTC and as ISO, texts are UTF-8.
_SESSION_OPTIONS = "-c TimeZone=UTC -c DateStyle=ISO"


def session(name: str, options: str = "") -> dict[str, Any]:
    """Return the keyword arguments of every connection of this process.

    Args:
        name: shown in ``pg_stat_activity``.
        options: server settings of the session, as ``-c name=value …``.
    """
    return {
        "autocommit": True,
        "application_name": name,
        "client_encoding": "UTF8",
        "connect_timeout": _CONNECT_TIMEOUT_S,
        "options": f"{_SESSION_OPTIONS} {options}",
        # A peer that vanished without a word is noticed within seconds, not hours.
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "tcp_user_timeout": 10_000,
    }


async def connect(dsn: str, *, name: str, options: str = "") -> AsyncConnection[Any]:
    """Open a connection in autocommit mode.

    Args:
        dsn: connection string.
        name: shown in ``pg_stat_activity``.
        options: server settings of the session, as ``-c name=value …``.

    Raises:
        PostgresUnavailableError: Postgres can't be reached.
    """
    try:
        return await AsyncConnection.connect(dsn, **session(name, options))
    except psycopg.OperationalError as error:
        raise PostgresUnavailableError(f"Postgres does not answer: {str(error).strip()}") from error


def hang_up(conn: AsyncConnection[Any]) -> None:
    """Close a connection without a word to the server; whoever waits on it can then be cancelled.

    psycopg answers a cancelled wait with a cancel request and waits for its effect, which a server
    that hangs never gives.
    """
    conn.pgconn.finish()


async def within(conn: AsyncConnection[Any], work: Awaitable[_T], *, timeout_s: float) -> _T:
    """Do what waits for a connection, but not for ever: a silent peer may never answer.

    Keepalives don't notice a peer that acknowledges and says nothing (a proxy whose server died).

    Raises:
        PostgresUnavailableError: there was no answer in time; the connection is dropped.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait([task], timeout=timeout_s)
    finally:
        late = not task.done()
        if late:
            hang_up(conn)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    if late:
        raise PostgresUnavailableError(f"Postgres did not answer within {timeout_s:g} s.")
    return task.result()
