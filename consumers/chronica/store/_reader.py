"""Reads that see your writes: wait for the watermark, read, look whether it was enough (rule 3.7).

What must be seen is counted in offsets: the position a client names, and whatever this process has
acknowledged or served. What was acknowledged stays owed even if Postgres takes its commit back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Literal, Self, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from chronica.acta import (
    TEXT_CODE_POINTS_MAX,
    ReadTimeoutError,
    StoreUnavailableError,
    WindowQuery,
)
from chronica.infra.settings import Settings
from chronica.log import LogEnds, LogUnavailableError, TopicFacts, partition_key, partition_of
from chronica.projections import (
    DatabaseFacts,
    Outcome,
    Place,
    PostgresUnavailableError,
    Watermarks,
    Window,
    read_facts,
    read_outcomes,
    read_window,
    session,
    sorted_error,
    within,
)

__all__ = ["Consistency", "Reader"]

Consistency = Literal["session", "linearizable", "eventual"]
"""``session``: no older than the given position and than what this process acknowledged or served.
``linearizable``: no older than anything acknowledged anywhere. ``eventual``: as it is."""

_TOPIC = "acta"
_CONNECTIONS_MAX = 8
_AGAIN_S = 0.01
_T = TypeVar("_T")


class Reader:
    """Reads windows, chronica and outcomes for one process.

    Args:
        settings: with the addresses of Kafka and Postgres.
        facts: what the acta topic is.
        timeout_s: how long a read may take in all; then ReadTimeoutError.
    """

    def __init__(self, settings: Settings, facts: TopicFacts, *, timeout_s: float = 5.0) -> None:
        assert settings.postgres_dsn is not None, "the caller has resolved the addresses"
        dsn = settings.postgres_dsn.get_secret_value()
        self._facts = facts
        self._timeout_s = timeout_s
        self._watermarks = Watermarks(dsn, _TOPIC)
        # Shorter than the read's own time, so that the error says what was waited for.
        self._part_timeout_s = timeout_s * 0.8
        self._ends = LogEnds(settings.kafka_client(), facts.name, timeout_s=self._part_timeout_s)
        self._pool: AsyncConnectionPool[AsyncConnection[Any]] = AsyncConnectionPool(
            dsn,
            min_size=1,
            max_size=_CONNECTIONS_MAX,
            open=False,
            # Given up soon and begun anew by the next request: the pool's own back-off grows to
            # minutes, and a read must recover as soon as Postgres is back.
            reconnect_timeout=1.0,
            kwargs=session("chronica reader", "-c statement_timeout=30s"),
        )
        self._failing = False  # whether the last statement was not answered
        self._owed: dict[int, int] = {}
        self._seen_losses: dict[int, int] = {}
        self._asked: dict[Place, asyncio.Future[Outcome | None]] = {}
        self._asking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Begin to follow the watermarks; Postgres may be away, it is waited for by reads."""
        await self._watermarks.start()
        await self._pool.open(wait=False)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close every connection."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)
        await self._watermarks.close()
        await self._ends.close()
        await self._pool.close(timeout=2.0)

    @property
    def watermarks(self) -> Watermarks:
        """How far each partition is recorded."""
        return self._watermarks

    @property
    def ends(self) -> LogEnds:
        """Where each partition ends."""
        return self._ends

    def partition(self, tenant: str, chronicum: str) -> int:
        """Return the partition of a chronicum."""
        return partition_of(partition_key(tenant, chronicum), self._facts.partitions)

    def owe(self, partition: int, offset: int) -> None:
        """Let no later session read of this process be older than the record at this offset."""
        self._owed[partition] = max(self._owed.get(partition, -1), offset)

    async def window(
        self,
        tenant: str,
        owner: str | None,
        chronicum: str,
        query: WindowQuery | None,
        *,
        offset: int = -1,
        consistency: Consistency = "session",
    ) -> Window:
        """Read a chronicum and, with a query, its window; ``whole_calls`` is left to the caller.

        Args:
            tenant: whose it is.
            owner: who asks; None asks without a guard.
            chronicum: its id.
            query: validated; None for the chronicum alone.
            offset: the read must have seen the record at this offset of the chronicum's partition.
            consistency: how fresh besides.

        Raises:
            ReadTimeoutError: the projection is not that far.
            StoreUnavailableError: Postgres, or for a linearizable read Kafka, does not answer.
        """
        if max(len(chronicum), len(owner or "")) > TEXT_CODE_POINTS_MAX:
            return Window(self._watermarks.generation, 0, None, ())  # there can be none
        partition = self.partition(tenant, chronicum)

        async def read() -> Window:
            losses = self._watermarks.losses
            needed = await self._needed(partition, offset, consistency)
            while True:
                if needed >= 0:
                    await self._watermarks.passed(partition, needed)
                generation = await self._generation()
                statement = partial(
                    read_window,
                    generation=generation,
                    partition=partition,
                    tenant=tenant,
                    owner=owner,
                    chronicum=chronicum,
                    query=query,
                )
                window = await self._query(statement)
                if window.generation == generation and window.watermark > needed:
                    break
                # Postgres took commits back, or another generation went live: see again.
                await asyncio.sleep(_AGAIN_S)
            self.owe(partition, window.watermark - 1)
            if consistency != "eventual":
                self._seen_losses[partition] = losses
            return window

        return await self._bounded(read())

    async def outcome(
        self, partition: int, offset: int, *, timeout_s: float | None = None
    ) -> Outcome:
        """Wait until the submission at a place is decided, and return what became of it.

        Raises:
            ReadTimeoutError: it is not decided in time; it will be.
            StoreUnavailableError: Postgres does not answer.
        """

        async def read() -> Outcome:
            while True:
                await self._watermarks.passed(partition, offset)
                outcome = await self._outcome((partition, offset))
                if outcome is not None:
                    return outcome
                await asyncio.sleep(_AGAIN_S)

        return await self._bounded(read(), timeout_s)

    async def facts(self) -> DatabaseFacts:
        """Return what the database is now, for readiness.

        Raises:
            StoreUnavailableError: Postgres does not answer.
        """
        return await self._bounded(self._query(read_facts))

    async def _needed(self, partition: int, offset: int, consistency: Consistency) -> int:
        """Return the offset that must be recorded before the read, -1 for none."""
        if consistency == "eventual":
            return offset
        needed = max(offset, self._owed.get(partition, -1))
        # The first session read after a start, or after a lost connection, can't know what was
        # served before: it asks the log.
        unseen = self._seen_losses.get(partition) != self._watermarks.losses
        if consistency == "linearizable" or unseen:
            try:
                needed = max(needed, await self._ends.end(partition) - 1)
            except LogUnavailableError as error:
                raise StoreUnavailableError(str(error)) from error
        return needed

    async def _generation(self) -> int:
        while self._watermarks.generation == 0:
            await self._watermarks.moved()
        return self._watermarks.generation

    async def _outcome(self, place: Place) -> Outcome | None:
        """Ask together with everyone who asks at this moment: one statement for all."""
        future = self._asked.get(place)
        if future is None:
            future = asyncio.get_running_loop().create_future()
            self._asked[place] = future
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        return await asyncio.shield(future)

    async def _ask(self) -> None:
        while self._asked:
            asked, self._asked = self._asked, {}
            generation = self._watermarks.generation
            try:
                places = list(asked)
                statement = partial(
                    read_outcomes, generation=generation, topic=_TOPIC, places=places
                )
                found = await self._query(statement)
            except (Exception, asyncio.CancelledError) as error:
                for future in asked.values():
                    if not future.done():
                        future.set_exception(StoreUnavailableError(str(error)))
                        future.exception()
                if isinstance(error, asyncio.CancelledError):
                    raise
            else:
                for place, future in asked.items():
                    if not future.done():
                        future.set_result(found.get(place))

    async def _query(self, query: Callable[[AsyncConnection[Any]], Awaitable[_T]]) -> _T:
        """Run a read; a connection that Postgres broke is replaced until the read's time is up."""
        while True:
            try:
                async with self._pool.connection(timeout=self._part_timeout_s) as conn:
                    answer = await within(conn, query(conn), timeout_s=self._part_timeout_s)
            except (PostgresUnavailableError, psycopg.OperationalError):
                self._failing = True
                await asyncio.sleep(_AGAIN_S)
            except PoolTimeout:
                raise StoreUnavailableError("Postgres does not answer: try again.") from None
            except PoolClosed:
                raise StoreUnavailableError("The store is closed.") from None
            except psycopg.Error as error:
                raise sorted_error(error) from error
            else:
                self._failing = False
                return answer

    async def _bounded(self, read: Awaitable[_T], timeout_s: float | None = None) -> _T:
        try:
            async with asyncio.timeout(self._timeout_s if timeout_s is None else timeout_s):
                return await read
        except TimeoutError:
            if self._watermarks.connected and not self._failing:
                raise ReadTimeoutError(
                    "The recorder is not that far yet: the write is kept in the log; try again."
                ) from None
            raise StoreUnavailableError("Postgres does not answer: try again.") from None
