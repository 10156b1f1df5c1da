"""Connections: how every part of this process reaches Postgres."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import AsyncConnection

from chronica.projections._errors import PostgresUnavailableError

__all__ = ["connect", "hang_up"]

_CONNECT_TIMEOUT_S = 5


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
        return await AsyncConnection.connect(
            dsn,
            autocommit=True,
            application_name=name,
            connect_timeout=_CONNECT_TIMEOUT_S,
            options=options,
            # A peer that vanished without a word is noticed within seconds, not hours.
            keepalives_idle=5,
            keepalives_interval=2,
            keepalives_count=3,
            tcp_user_timeout=10_000,
        )
    except psycopg.OperationalError as error:
        raise PostgresUnavailableError(f"Postgres does not answer: {str(error).strip()}") from error


def hang_up(conn: AsyncConnection[Any]) -> None:
    """Close a connection without a word to the server; whoever waits on it can then be cancelled.

    psycopg answers a cancelled wait with a cancel request and waits for its effect, which a server
    that hangs never gives.
    """
    conn.pgconn.finish()
