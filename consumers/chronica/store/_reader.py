"""Reads that see your writes: wait for the watermark, read, look whether it was enough (rule 3.7).

What must be seen is counted in offsets: the position a client names, and whatever this process has
acknowledged or served. What was acknowledged stays owed even if Postgres takes its commit back.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from typing import Literal, Self, TypeVar
from uuid import UUID

from chronica.acta import (
    TEXT_CODE_POINTS_MAX,
    ReadTimeoutError,
    StoreUnavailableError,
    WindowQuery,
    whole_calls,
)
from chronica.infra.settings import Settings
from chronica.log import LogEnds, LogUnavailableError, TopicFacts, partition_key, partition_of
from chronica.projections import (
    DatabaseFacts,
    Followed,
    Following,
    Outcome,
    Place,
    StoredActum,
    Watermarks,
    Window,
    count_dead_letters,
    read_after,
    read_facts,
    read_window,
)
from chronica.store._long_windows import LongWindows
from chronica.store._outcomes import Outcomes
from chronica.store._short_reads import ShortReads

__all__ = ["Consistency", "Reader"]

Consistency = Literal["session", "linearizable", "eventual"]
"""``session``: no older than the given position and than what this process acknowledged or served.
``linearizable``: no older than anything acknowledged anywhere. ``eventual``: as it is."""

_TOPIC = "acta"
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
        self._short = ShortReads(dsn, timeout_s=self._part_timeout_s)
        self._long = LongWindows(dsn, timeout_s=self._part_timeout_s)
        self._owed: dict[int, int] = {}
        self._seen_losses: dict[int, int] = {}
        self._outcomes = Outcomes(self._short, self._watermarks)

    async def __aenter__(self) -> Self:
        """Begin to follow the watermarks; Postgres may be away, it is waited for by reads."""
        await self._watermarks.start()
        await self._short.open()
        await self._long.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close every connection."""
        await self._outcomes.close()
        await self._watermarks.close()
        await self._ends.close()
        await self._short.close()
        await self._long.close()

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
        """Read a chronicum and, with a query, its window: the whole, unless it has a ``rest``.

        A window with a rest is long: some 1 MiB of it is read, and ``streamed`` gives all of it.

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
                window = await self._short.run(statement)
                if window.generation == generation and window.watermark > needed:
                    break
                # Postgres took commits back, or another generation went live: see again.
                await asyncio.sleep(_AGAIN_S)
            self.owe(partition, window.watermark - 1)
            if consistency != "eventual":
                self._seen_losses[partition] = losses
            if query is not None and query.whole_calls and window.rest is None:
                return replace(window, acta=tuple(whole_calls(window.acta)))
            return window

        return await self._bounded(read())

    def streamed(
        self, window: Window
    ) -> AbstractAsyncContextManager[AsyncIterator[list[StoredActum]]]:
        """Give all of a window that ``window`` returned, oldest first, in batches.

        A batch is some 16 KiB or one actum, so that no more need be held. Few long windows are
        read at once; leaving the block ends the statement.

        Raises:
            StoreUnavailableError: too many are being read, or Postgres does not answer; also
                while the batches are read.
        """
        return self._long.streamed(window)

    async def outcomes(
        self, places: Sequence[Place], *, timeout_s: float | None = None
    ) -> dict[Place, Outcome]:
        """Wait until the submissions at some places are decided, and return what became of them.

        Args:
            places: of which submissions.
            timeout_s: how long to wait, by default the time of a read; then those that are
                decided are returned. 0 looks at how it is now.

        Raises:
            StoreUnavailableError: Postgres does not answer.
        """
        wait_s = self._timeout_s if timeout_s is None else timeout_s
        decided: set[Place] = set()
        try:
            async with asyncio.timeout(wait_s):
                for place in sorted(places):
                    await self._watermarks.passed(*place)
                    decided.add(place)
        except TimeoutError:
            if not self._watermarks.connected:
                raise StoreUnavailableError("Postgres does not answer: try again.") from None
        wanted = [place for place in places if place in decided]
        return await self._bounded(self._look(wanted)) if wanted else {}

    async def _look(self, places: Sequence[Place]) -> dict[Place, Outcome]:
        while True:
            found = await self._outcomes.look(places)
            if len(found) == len(set(places)):
                return found
            # Postgres took commits back after the watermark was seen: the recorder repeats them.
            await asyncio.sleep(_AGAIN_S)

    async def after(
        self, followed: Sequence[Followed], *, rows_max: int, bytes_max: int
    ) -> dict[UUID, Following]:
        """Return the next acta of chronica that are followed, as they are recorded now.

        Args:
            followed: each chronicum once, and from where on.
            rows_max: at most so many acta of each.
            bytes_max: nor more than so many bytes of each; but one actum, whatever its size.

        Raises:
            ReadTimeoutError, StoreUnavailableError: Postgres does not answer.
        """

        async def read() -> dict[UUID, Following]:
            statement = partial(
                read_after,
                generation=await self._generation(),
                followed=followed,
                rows_max=rows_max,
                bytes_max=bytes_max,
            )
            return await self._short.run(statement)

        return await self._bounded(read())

    async def facts(self) -> DatabaseFacts:
        """Return what the database is now, for readiness.

        Raises:
            StoreUnavailableError: Postgres does not answer.
        """
        return await self._bounded(self._short.run(read_facts))

    async def dead_letters(self) -> dict[str, int]:
        """Return how many dead letters are kept, by reason.

        Raises:
            StoreUnavailableError: Postgres does not answer.
        """
        return await self._bounded(self._short.run(partial(count_dead_letters, topic=_TOPIC)))

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

    async def _bounded(self, read: Awaitable[_T], timeout_s: float | None = None) -> _T:
        try:
            async with asyncio.timeout(self._timeout_s if timeout_s is None else timeout_s):
                return await read
        except TimeoutError:
            if self._watermarks.connected and not self._short.failing:
                raise ReadTimeoutError(
                    "The recorder is not that far yet: the write is kept in the log; try again."
                ) from None
            raise StoreUnavailableError("Postgres does not answer: try again.") from None
