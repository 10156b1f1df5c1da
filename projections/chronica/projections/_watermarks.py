"""Watermarks: how far each partition is recorded, as this process knows it (rule 3.7).

One connection listens for the recorders' notifications and, because a notification can be missed,
asks every 250 ms besides. When it is lost, all it knew is void: Postgres may have taken back its
last commits, so whoever waits, waits until the new connection says so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
from psycopg import AsyncConnection

from chronica.projections._batches import CHANNEL
from chronica.projections._claims import live_generation
from chronica.projections._connect import connect, within
from chronica.projections._errors import PostgresUnavailableError

__all__ = ["Watermarks"]

_log = logging.getLogger("chronica.projections")

_POLL_S = 0.25
_RETRY_S = 0.25
_ANSWER_S = 5.0


class Watermarks:
    """The next offset to be recorded of each partition of one topic.

    Args:
        dsn: Postgres connection string.
        topic: short name of the topic.
        sleep: injected; waits between attempts to connect.
    """

    def __init__(
        self,
        dsn: str,
        topic: str,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._dsn = dsn
        self._topic = topic
        self._sleep = sleep
        self._marks: dict[int, int] = {}
        self._waiters: dict[int, list[tuple[int, asyncio.Future[None]]]] = {}
        self._moved = asyncio.Event()
        self._on_move: list[Callable[[int], None]] = []
        self._task: asyncio.Task[None] | None = None
        self.generation = 0
        """The live generation, 0 before it is known."""
        self.losses = 0
        """How often the connection was lost: a watermark seen before is void after."""

    @property
    def connected(self) -> bool:
        """Whether the watermarks are being followed now."""
        return bool(self._marks)

    def get(self, partition: int) -> int | None:
        """Return a partition's watermark, None while it is not known."""
        return self._marks.get(partition)

    async def start(self) -> None:
        """Begin to follow; returns at once."""
        self._task = asyncio.create_task(self._follow())

    async def close(self) -> None:
        """Stop following; whoever waits is cancelled."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for waiters in self._waiters.values():
            for _offset, future in waiters:
                future.cancel()

    def on_move(self, tell: Callable[[int], None]) -> None:
        """Have it told which partition has moved, each time one does."""
        self._on_move.append(tell)

    async def passed(self, partition: int, offset: int) -> None:
        """Wait until the record at an offset is recorded; bound it with ``asyncio.timeout``."""
        mark = self._marks.get(partition)
        if mark is not None and mark > offset:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter = (offset, future)
        self._waiters.setdefault(partition, []).append(waiter)
        try:
            await future
        finally:
            if not future.done() or future.cancelled():
                waiting = self._waiters.get(partition, [])
                if waiter in waiting:
                    waiting.remove(waiter)

    async def moved(self) -> None:
        """Wait until any watermark moves."""
        self._moved.clear()
        await self._moved.wait()

    async def _follow(self) -> None:
        while True:
            try:
                conn = await connect(self._dsn, name="chronica watermarks")
                try:
                    await self._listen(conn)
                finally:
                    await conn.close()
            except (PostgresUnavailableError, psycopg.Error, OSError) as error:
                if self._marks:
                    _log.warning("watermarks void reason=%s", " ".join(str(error).split()))
            self._marks.clear()
            self.losses += 1
            self._moved.set()
            await self._sleep(_RETRY_S)

    async def _listen(self, conn: AsyncConnection[Any]) -> None:
        await within(conn, conn.execute(f"LISTEN {CHANNEL}"), timeout_s=_ANSWER_S)
        while True:
            await within(conn, self._poll(conn), timeout_s=_ANSWER_S)
            async for notify in conn.notifies(timeout=_POLL_S):
                generation, topic, partition, next_offset = notify.payload.split(" ")
                if topic == self._topic and int(generation) == self.generation:
                    self._move(int(partition), int(next_offset))

    async def _poll(self, conn: AsyncConnection[Any]) -> None:
        generation = await live_generation(conn)
        if generation != self.generation:
            self._marks.clear()
            self.generation = generation
        cursor = await conn.execute(
            f"SELECT partition, next_offset FROM chronica_g{generation}.claims WHERE topic = %s",
            [self._topic],
        )
        for partition, next_offset in await cursor.fetchall():
            self._move(partition, next_offset)

    def _move(self, partition: int, next_offset: int) -> None:
        if self._marks.get(partition, -1) >= next_offset:
            return
        self._marks[partition] = next_offset
        self._moved.set()
        for tell in self._on_move:
            tell(partition)
        waiters = self._waiters.get(partition)
        if not waiters:
            return
        self._waiters[partition] = [w for w in waiters if w[0] >= next_offset]
        for offset, future in waiters:
            if offset < next_offset and not future.done():
                future.set_result(None)
