"""Stored API keys, as this process knows them: read at once, followed by notification."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import psycopg
from psycopg import AsyncConnection

from chronica.projections._api_keys import KEYS_CHANNEL, ApiKey, read_keys
from chronica.projections._connect import connect, within
from chronica.projections._errors import PostgresUnavailableError

__all__ = ["FollowedKeys"]

_log = logging.getLogger("chronica.projections")

_POLL_S: Final = 5.0
_RETRY_S: Final = 0.5
_ANSWER_S: Final = 5.0


class FollowedKeys:
    """Gives every state of the stored keys to whoever keeps them.

    While Postgres is away nothing is given: what was last given stays the latest.

    Args:
        dsn: Postgres connection string.
        take: called with all keys, revoked ones too, at first and whenever they may have changed.
        sleep: injected; waits between attempts to connect.
    """

    def __init__(
        self,
        dsn: str,
        take: Callable[[Sequence[ApiKey]], None],
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._dsn = dsn
        self._take = take
        self._sleep = sleep
        self._task: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to follow; returns at once."""
        self._task = asyncio.create_task(self._follow())

    async def close(self) -> None:
        """Stop following."""
        tasks = [task for task in (self._task, self._reading) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def read_now(self) -> None:
        """Read them now, together with everyone who wants to; does nothing while it can't."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read_apart())
        await asyncio.shield(self._reading)

    async def _read_apart(self) -> None:
        try:
            conn = await connect(self._dsn, name="chronica keys")
            try:
                await self._read(conn)
            finally:
                await conn.close()
        except (PostgresUnavailableError, psycopg.Error, OSError) as error:
            _log.warning("keys not read reason=%s", " ".join(str(error).split()))

    async def _follow(self) -> None:
        while True:
            try:
                conn = await connect(self._dsn, name="chronica keys")
                try:
                    await within(conn, conn.execute(f"LISTEN {KEYS_CHANNEL}"), timeout_s=_ANSWER_S)
                    while True:
                        await self._read(conn)
                        async for _notify in conn.notifies(timeout=_POLL_S, stop_after=1):
                            pass
                finally:
                    await conn.close()
            except (PostgresUnavailableError, psycopg.Error, OSError) as error:
                _log.info("keys not followed reason=%s", " ".join(str(error).split()))
            await self._sleep(_RETRY_S)

    async def _read(self, conn: AsyncConnection[Any]) -> None:
        self._take(await within(conn, read_keys(conn), timeout_s=_ANSWER_S))
