"""Following chronica live: Postgres is asked once for all readers, whenever a partition moves.

The process's one listener (``Watermarks``) tells that a partition moved; one statement then reads
what is new of all chronica in it that somebody follows, each from where its channel ends. Readers
that are further behind read pages of their own, a few at a time. The order is that of seq, and a
reader is given nothing but the next one: never by timestamp, never twice (rule 3.8).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Self
from uuid import UUID

from chronica.acta import ReadTimeoutError, StoreUnavailableError
from chronica.projections import Followed, StoredActum, chronicum_digest
from chronica.store._channel import Channel, Event
from chronica.store._reader import Reader

__all__ = ["Feed", "Follower"]

_log = logging.getLogger("chronica.store")

_RING_EVENTS_MAX: Final = 256
_RING_BYTES_MAX: Final = 1024 * 1024
_PAGE_ROWS: Final = 200
_PAGE_BYTES: Final = 256 * 1024
_PAGES_AT_ONCE: Final = 4
_AGAIN_S: Final = 0.25


@dataclass(slots=True)
class _Watched:
    """A chronicum that is followed: its channel, who waits for it to move, and by how many."""

    chronicum: str
    digest: UUID
    partition: int
    channel: Channel
    moved: asyncio.Event = field(default_factory=asyncio.Event)
    followers: int = 0


class Feed:
    """Everything that this process follows.

    Args:
        reader: reads from Postgres.
        encode: makes the bytes of an event, once for all readers.
    """

    def __init__(self, reader: Reader, encode: Callable[[StoredActum], bytes]) -> None:
        self._reader = reader
        self._encode = encode
        self._watched: dict[UUID, _Watched] = {}
        self._dirty: set[int] = set()
        self._work = asyncio.Event()
        self._pages = asyncio.Semaphore(_PAGES_AT_ONCE)
        self._task: asyncio.Task[None] | None = None
        self.ended = False
        """Whether every follower is to stop."""

    async def __aenter__(self) -> Self:
        """Begin to follow the watermarks."""
        self._reader.watermarks.on_move(self._mark)
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop."""
        self.end()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def end(self) -> None:
        """Let every follower stop at once: the process is stopping."""
        self.ended = True
        for watched in self._watched.values():
            watched.moved.set()

    @contextmanager
    def follow(
        self, tenant: str, chronicum: str, *, after: int, last_seq: int
    ) -> Iterator[Follower]:
        """Follow a chronicum until the block ends.

        Args:
            tenant: whose it is.
            chronicum: its id; that the caller may see it has been checked.
            after: the seq after which to begin.
            last_seq: how far it is recorded, as read just before.
        """
        digest = chronicum_digest(tenant, chronicum)
        watched = self._watched.get(digest)
        if watched is None:
            channel = Channel(last_seq, events_max=_RING_EVENTS_MAX, bytes_max=_RING_BYTES_MAX)
            partition = self._reader.partition(tenant, chronicum)
            watched = self._watched[digest] = _Watched(chronicum, digest, partition, channel)
            self._mark(partition)  # it may have moved since last_seq was read
        watched.followers += 1
        try:
            yield Follower(self, watched, after)
        finally:
            watched.followers -= 1
            if not watched.followers:
                del self._watched[digest]

    async def page(self, watched: _Watched, after: int) -> list[Event]:
        """Read what comes after a seq, for one reader that is behind the channel.

        Raises:
            StoreUnavailableError: Postgres does not answer.
            ReadTimeoutError: likewise.
        """
        async with self._pages:
            wanted = Followed(watched.digest, watched.chronicum, after)
            found = await self._reader.after([wanted], rows_max=_PAGE_ROWS, bytes_max=_PAGE_BYTES)
        following = found.get(watched.digest)
        return [] if following is None else [self._event(actum) for actum in following.acta]

    def _event(self, actum: StoredActum) -> Event:
        return Event(actum.seq, self._encode(actum))

    def _mark(self, partition: int) -> None:
        self._dirty.add(partition)
        self._work.set()

    async def _run(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            partitions, self._dirty = self._dirty, set()
            watched = [w for w in self._watched.values() if w.partition in partitions]
            if not watched:
                continue
            try:
                await self._advance(watched)
            except Exception as error:  # noqa: BLE001  (whatever it is, the readers still wait)
                if not isinstance(error, StoreUnavailableError | ReadTimeoutError):
                    _log.exception("feed failed, and goes on")
                self._dirty |= partitions
                await asyncio.sleep(_AGAIN_S)
                self._work.set()

    async def _advance(self, watched: list[_Watched]) -> None:
        """Read once what is new of all these; what is more than a page comes with the next turn."""
        wanted = [Followed(w.digest, w.chronicum, w.channel.last_seq) for w in watched]
        found = await self._reader.after(wanted, rows_max=_PAGE_ROWS, bytes_max=_PAGE_BYTES)
        for each in watched:
            following = found.get(each.digest)
            if following is None:
                continue
            for actum in following.acta:
                each.channel.add(self._event(actum))
            each.moved.set()
            each.moved = asyncio.Event()
            if each.channel.last_seq < following.last_seq:
                self._mark(each.partition)


class Follower:
    """One reader of one chronicum: a seq, and nothing else."""

    def __init__(self, feed: Feed, watched: _Watched, after: int) -> None:
        self._feed = feed
        self._watched = watched
        self._after = after

    async def next(self, wait_s: float) -> list[Event]:
        """Return the next events; none if none came in time, or the feed has ended.

        Raises:
            StoreUnavailableError: Postgres does not answer; ask again.
            ReadTimeoutError: likewise.
        """
        moved = self._watched.moved
        events = self._watched.channel.after(self._after)
        if events is None:
            # Where Postgres has taken commits back, the page is empty until they are repeated.
            events = await self._feed.page(self._watched, self._after)
        if not events and not self._feed.ended:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await moved.wait()
            events = self._watched.channel.after(self._after) or []
        for event in events:
            assert event.seq == self._after + 1, "seqs are contiguous"
            self._after = event.seq
        return events
