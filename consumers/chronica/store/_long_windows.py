"""Long windows: few connections of their own, so that they hold up nobody who reads a short one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import psycopg
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from chronica.acta import StoreUnavailableError
from chronica.projections import (
    WINDOW_SESSION,
    DataRefusedError,
    PostgresUnavailableError,
    StoredActum,
    Window,
    WindowRest,
    session,
    stream_rest,
)

__all__ = ["LongWindows"]

CONNECTIONS_MAX: Final = 4
_WAIT_S: Final = 2.0
_AGAIN_S: Final = 0.05


class LongWindows:
    """Streams what is left of windows that were too long for their first statement.

    Args:
        dsn: Postgres connection string.
        timeout_s: how long Postgres may take to begin, and for each batch. The whole has no
            limit: a long window that goes on is healthy.
    """

    def __init__(self, dsn: str, *, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._pool: AsyncConnectionPool[AsyncConnection[Any]] = AsyncConnectionPool(
            dsn,
            min_size=0,
            max_size=CONNECTIONS_MAX,
            open=False,
            reconnect_timeout=1.0,
            # No limit to a statement, whatever the role or the database sets: batches are bounded.
            kwargs=session("chronica long reader", f"{WINDOW_SESSION} -c statement_timeout=0"),
        )

    async def open(self) -> None:
        """Be ready; a connection is made when one is needed."""
        await self._pool.open(wait=False)

    async def close(self) -> None:
        """Close every connection."""
        await self._pool.close(timeout=2.0)

    @asynccontextmanager
    async def streamed(self, window: Window) -> AsyncIterator[AsyncIterator[list[StoredActum]]]:
        """Give a whole window, oldest first, in batches of some 16 KiB or one actum.

        Raises:
            StoreUnavailableError: no connection came free, or Postgres does not answer; also
                while the batches are read.
        """
        async with AsyncExitStack() as stack:
            rest = None if window.rest is None else await self._begun(stack, window.rest)

            async def batches() -> AsyncIterator[list[StoredActum]]:
                if window.rest is None or not window.rest.query.whole_calls:
                    yield list(window.acta)  # else they are judged again, with all the others
                if rest is not None:
                    try:
                        async for batch in rest:
                            yield batch
                    except (PostgresUnavailableError, DataRefusedError) as error:
                        raise StoreUnavailableError(
                            "Postgres went away while the window was read: try again."
                        ) from error

            yield batches()

    async def _begun(
        self, stack: AsyncExitStack, rest: WindowRest
    ) -> AsyncIterator[list[StoredActum]]:
        """Begin to stream, again and again until it works or the time is up."""
        deadline = time.monotonic() + self._timeout_s
        while True:
            async with AsyncExitStack() as attempt:
                try:
                    conn = await attempt.enter_async_context(self._pool.connection(timeout=_WAIT_S))
                    batches = await attempt.enter_async_context(
                        stream_rest(conn, rest, timeout_s=self._timeout_s)
                    )
                except PoolTimeout:
                    raise StoreUnavailableError(
                        "As many long windows are being read as may be at once, or Postgres does "
                        "not answer: try again, or ask for less with last_n or max_chars."
                    ) from None
                except PoolClosed:
                    raise StoreUnavailableError("The store is closed.") from None
                except (PostgresUnavailableError, psycopg.OperationalError) as error:
                    if time.monotonic() > deadline:
                        raise StoreUnavailableError(
                            "Postgres does not answer: try again."
                        ) from error
                else:
                    stack.push_async_exit(attempt.pop_all())
                    return batches
            await asyncio.sleep(_AGAIN_S)
