"""Clients that record under fire, and a ledger of what they were promised.

Each client records one actum after the other and retries as the errors tell it to; readers read all
the time and hold every answer against what this process had acknowledged before it asked. ``check``
then reads everything with fresh eyes: all acknowledged is there, once, at its seq, in the order its
client sent it, and nothing else is.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import psycopg
from tests.harness.running import dsn_of

from chronica.acta import (
    ActorKind,
    Actum,
    ActumKind,
    AppendUnknownError,
    Chronicarius,
    DecisionPendingError,
    NotAppendedError,
    ReadTimeoutError,
    StoreUnavailableError,
    random_id,
)
from chronica.infra.settings import Settings

__all__ = ["Ledger", "Load", "check", "under_load"]

_OWNER = "ardian"
_CHRONICA = 12
_CLIENTS = 6
_READERS = 2


@dataclass
class Ledger:
    """What was sent, what was acknowledged, and which errors came on the way."""

    sent: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    acknowledged: dict[str, list[Actum]] = field(default_factory=lambda: defaultdict(list))
    errors: Counter[str] = field(default_factory=Counter)
    reads: int = 0

    @property
    def count(self) -> int:
        """How many acta are acknowledged."""
        return sum(map(len, self.acknowledged.values()))

    def hold_against(self, acta: list[Actum], promised: list[Actum]) -> None:
        """Assert that a window has everything that was promised before it was asked for."""
        seen = {actum.seq: actum for actum in acta}
        assert list(seen) == list(range(1, len(acta) + 1)), "the seqs have a gap, or one twice"
        for actum in promised:
            assert seen.get(actum.seq) == actum, f"{actum} was acknowledged, and is not there"


class Load:
    """The clients and readers of one process.

    Args:
        chronicarius: the store under fire.
        seed: of every choice that is made here.
    """

    def __init__(self, chronicarius: Chronicarius, seed: int) -> None:
        self.ledger = Ledger()
        self._chronicarius = chronicarius
        self._random = random.Random(seed)
        self._chronica = [random_id() for _ in range(_CHRONICA)]
        self._stopping = False
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin."""
        self._tasks = [asyncio.create_task(self._client(f"client{n}")) for n in range(_CLIENTS)]
        self._tasks += [asyncio.create_task(self._reader()) for _ in range(_READERS)]

    async def stop(self) -> None:
        """Let every client finish what it has sent, retries included."""
        self._stopping = True
        await asyncio.gather(*self._tasks)

    def abandon(self) -> None:
        """End at once: the test has failed already."""
        for task in self._tasks:
            task.cancel()

    async def progress(self, more: int = 1, *, within_s: float = 60.0) -> None:
        """Wait until so many more acta are acknowledged; an error that ended a client is raised."""
        wanted = self.ledger.count + more
        async with asyncio.timeout(within_s):
            while self.ledger.count < wanted:
                for task in self._tasks:
                    if task.done():
                        task.result()
                await asyncio.sleep(0.02)

    async def warm_up(self) -> None:
        """Record and read in every chronicum: only a partition's first read asks Kafka."""
        while len(self.ledger.acknowledged) < _CHRONICA:
            await self.progress(10)
        await self.read_all()

    async def read_all(self, *, within_s: float = 60.0) -> None:
        """Read every chronicum now: as soon as there is an answer, it is complete."""
        async with asyncio.timeout(within_s):
            await asyncio.gather(*(self._read(c) for c in list(self.ledger.acknowledged)))

    async def read_what_is_recorded(self) -> None:
        """Read every chronicum once: it is complete, or the read says in time that it must wait.

        A record that Kafka acknowledged just before it went away, and no recorder had read yet, is
        owed to every later read of its partition by this process (session consistency): such a
        read can't be answered before Kafka is back. All others can.
        """

        async def read(chronicum: str) -> None:
            promised = list(self.ledger.acknowledged[chronicum])
            try:
                acta = await self._chronicarius.get_acta(_OWNER, chronicum)
            except ReadTimeoutError as error:
                self.ledger.errors[type(error).__name__] += 1
            else:
                self.ledger.hold_against(acta, promised)

        async with asyncio.timeout(30.0):
            await asyncio.gather(*(read(c) for c in list(self.ledger.acknowledged)))

    async def _client(self, name: str) -> None:
        number = 0
        while not self._stopping:
            number += 1
            chronicum = self._random.choice(self._chronica)
            content = f"{name} {number}"
            self.ledger.sent[chronicum].add(content)
            key = f"key of {content}" if self._random.random() < 0.5 else None
            stored = await self._record(chronicum, content, key)
            self.ledger.acknowledged[chronicum].append(stored)
            if number % 20 == 0:
                await self._read(chronicum)

    async def _record(self, chronicum: str, content: str, key: str | None) -> Actum:
        actum = Actum(
            chronicum_id=chronicum,
            kind=ActumKind.MESSAGE,
            actor_kind=ActorKind.AGENT,
            actor=content.split(maxsplit=1)[0],
            content=content,
        )
        while True:
            try:
                return await self._chronicarius.record_actum(_OWNER, actum, idempotency_key=key)
            except (AppendUnknownError, DecisionPendingError) as error:
                self.ledger.errors[type(error).__name__] += 1
                key = error.retry_key
            except NotAppendedError as error:
                self.ledger.errors[type(error).__name__] += 1
                await asyncio.sleep(error.retry_after_s / 10)

    async def _reader(self) -> None:
        while not self._stopping:
            await asyncio.sleep(0.01)
            if self.ledger.acknowledged:
                await self._read(self._random.choice(list(self.ledger.acknowledged)))

    async def _read(self, chronicum: str) -> None:
        while True:
            promised = list(self.ledger.acknowledged[chronicum])
            try:
                acta = await self._chronicarius.get_acta(_OWNER, chronicum)
            except (StoreUnavailableError, ReadTimeoutError) as error:
                self.ledger.errors[type(error).__name__] += 1
                await asyncio.sleep(0.01)
            else:
                self.ledger.reads += 1
                self.ledger.hold_against(acta, promised)
                return


@asynccontextmanager
async def under_load(settings: Settings, seed: int) -> AsyncIterator[Load]:
    """Keep clients and readers going during the block; then check all they were promised."""
    async with Chronicarius.connect(settings=settings) as chronicarius:
        load = Load(chronicarius, seed)
        load.start()
        try:
            await load.warm_up()
            yield load
            await load.progress(50)
            await load.stop()
        except BaseException:
            load.abandon()
            raise
    await check(settings, load.ledger)


async def check(settings: Settings, ledger: Ledger) -> None:
    """Read everything as a process that has just started, and hold it against the ledger."""
    async with Chronicarius.connect(settings=settings, read_timeout_s=30.0) as chronicarius:
        for chronicum, sent in ledger.sent.items():
            acta = await chronicarius.get_acta(_OWNER, chronicum)
            promised = ledger.acknowledged[chronicum]
            ledger.hold_against(acta, promised)
            contents = [actum.content for actum in acta]
            assert len(set(contents)) == len(contents), "something was recorded twice"
            assert set(contents) == sent, "something was lost, or nobody sent it"
            assert len(promised) == len(acta), "not every client has its answer"
            for client in {content.split()[0] for content in contents}:
                numbers = [int(c.split()[1]) for c in contents if c.split()[0] == client]
                assert numbers == sorted(numbers), f"{client}'s order is not kept"
    async with await psycopg.AsyncConnection.connect(dsn_of(settings)) as connection:
        cursor = await connection.execute(
            "SELECT (SELECT count(*) FROM chronica_g1.acta), "
            "(SELECT count(*) FROM chronica_g1.chronica), "
            "(SELECT count(*) FROM chronica_g1.dead_letters), "
            "(SELECT count(*) FROM chronica.verdicts)"
        )
        assert await cursor.fetchone() == (ledger.count, len(ledger.sent), 0, 0)
