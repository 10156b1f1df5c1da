"""Short statements: a pool of connections, and patience where Postgres breaks one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from chronica.acta import StoreUnavailableError
from chronica.projections import (
    WINDOW_SESSION,
    PostgresUnavailableError,
    session,
    sorted_error,
    within,
)

__all__ = ["ShortReads"]

_CONNECTIONS_MAX: Final = 8
_AGAIN_S: Final = 0.01
_T = TypeVar("_T")


class ShortReads:
    """Runs statements whose answers are small.

    Args:
        dsn: Postgres connection string.
        timeout_s: how long a statement may wait for its connection, and then for its answer.
    """

    def __init__(self, dsn: str, *, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._pool: AsyncConnectionPool[AsyncConnection[Any]] = AsyncConnectionPool(
            dsn,
            min_size=1,
            max_size=_CONNECTIONS_MAX,
            open=False,
            # Given up soon and begun anew by the next request: the pool's own back-off grows to
            # minutes, and a read must recover as soon as Postgres is back.
            reconnect_timeout=1.0,
            # Prepared at once: to plan a window costs more than to read it.
            kwargs=session("chronica reader", f"{WINDOW_SESSION} -c statement_timeout=30s")
            | {"prepare_threshold": 0},
        )
        self.failing = False
        """Whether the last statement was not answered."""

    async def open(self) -> None:
        """Begin to connect; Postgres may be away."""
        await self._pool.open(wait=False)

    async def close(self) -> None:
        """Close every connection."""
        await self._pool.close(timeout=2.0)

    async def run(self, query: Callable[[AsyncConnection[Any]], Awaitable[_T]]) -> _T:
        """Run a read; on a connection that Postgres broke, again: its caller bounds the time.

        Raises:
            StoreUnavailableError: no connection came free, or the store is closed.
        """
        while True:
            try:
                async with self._pool.connection(timeout=self._timeout_s) as conn:
                    answer = await within(conn, query(conn), timeout_s=self._timeout_s)
            except PoolTimeout:
                raise StoreUnavailableError("Postgres does not answer: try again.") from None
            except PoolClosed:
                raise StoreUnavailableError("The store is closed.") from None
            except (PostgresUnavailableError, psycopg.OperationalError):
                self.failing = True
                await asyncio.sleep(_AGAIN_S)
            except psycopg.Error as error:
                raise sorted_error(error) from error
            else:
                self.failing = False
                return answer
