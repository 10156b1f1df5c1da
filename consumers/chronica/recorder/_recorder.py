"""The recorder: one process's share of the partitions, held for as long as it lives."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import psycopg
from psycopg import AsyncConnection

from chronica.infra.settings import Settings
from chronica.log import (
    LogRefusedError,
    LogUnavailableError,
    TopicFacts,
    ensure_topic,
    inspect_topic,
)
from chronica.projections import (
    PostgresUnavailableError,
    SchemaRefusedError,
    check_schema,
    connect,
    end_hung_sessions,
    enter_membership,
    hang_up,
    live_generation,
    pin_topic,
    sharing,
    sorted_error,
    within,
)
from chronica.recorder._lag import LagReport
from chronica.recorder._share import fair_share, to_claim, to_give_up
from chronica.recorder._shell import PartitionShell, backoff_s
from chronica.recorder._work import Limits

__all__ = ["Recorder"]

_log = logging.getLogger("chronica.recorder")
_T = TypeVar("_T")

_TOPIC = "acta"
_TICK_S = 1.0
_ANSWER_S = 15.0
# A recorder that hangs is no longer counted after as long as its claims are kept (see the shell):
# else its share would be free, and nobody's.
_SESSION_OPTIONS = "-c idle_session_timeout=60s -c statement_timeout=60s"
_WATCH_S = 5.0
_FINISH_WITHIN_S = 3.0


class Recorder:
    """Records the acta topic, together with every other recorder of the same database.

    It takes an even share of the partitions, gives up what is too much when another comes, and
    takes over what another leaves. Kafka or Postgres away is waited out; nothing needs a restart.

    Args:
        settings: with the addresses of Kafka and Postgres.
        limits: of one batch.
        number: of this recorder among the live ones; random by default.
        hung_after_s: a recorder that has not spoken to Postgres for so long is taken over from.
        sleep: injected; the waits between ticks and after failures.
        jitter: injected; returns a number from 0 to 1.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        limits: Limits | None = None,
        number: int | None = None,
        hung_after_s: float = 60.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        assert settings.postgres_dsn is not None, "the caller has resolved the addresses"
        self._settings = settings
        self._dsn = settings.postgres_dsn.get_secret_value()
        self._limits = limits or Limits()
        self._number = random.getrandbits(31) if number is None else number
        self._hung_after_s = hung_after_s
        self._sleep = sleep
        self._jitter = jitter
        self._work: dict[int, tuple[PartitionShell, asyncio.Task[None]]] = {}
        self._stopping = asyncio.Event()
        self._conn: AsyncConnection[Any] | None = None
        self._facts: TopicFacts | None = None

    @property
    def partitions(self) -> dict[int, int]:
        """The partitions held now, each with the next offset to record (-1 before its claim)."""
        return {n: shell.next_offset for n, (shell, _task) in self._work.items()}

    def stop(self) -> None:
        """Ask ``run`` to finish what is under way and return; within 5 s."""
        self._stopping.set()
        for shell, _task in self._work.values():
            shell.stop()

    async def run(self) -> None:
        """Record until ``stop`` is called.

        Raises:
            LogRefusedError: a topic or what it holds is not as it must be.
            SchemaRefusedError: the database is not, or belongs to another log.
        """
        live = asyncio.create_task(self._live())
        watch = asyncio.create_task(self._watch())
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([live, watch, stopping], return_when=asyncio.FIRST_COMPLETED)
            for part in (live, watch):
                if part.done():
                    part.result()  # raises what it was refused for
        finally:
            stopping.cancel()
            watch.cancel()
            await self._finish(live)
            await asyncio.gather(watch, return_exceptions=True)

    async def _live(self) -> None:
        failures = 0
        while True:
            try:
                facts, generation = await self._enter()
                failures = 0
                while True:
                    await self._tick(facts, generation)
                    await self._pause(_TICK_S)
            except (PostgresUnavailableError, LogUnavailableError) as error:
                failures += 1
                _log.warning("recorder waits failures=%d reason=%s", failures, error)
            except (LogRefusedError, SchemaRefusedError):
                raise
            except Exception:  # noqa: BLE001
                # Unforeseen, so it may pass; what is claimed goes on meanwhile.
                failures += 1
                _log.exception("recorder waits failures=%d", failures)
            await self._leave()
            await self._pause(backoff_s(failures, self._jitter()))

    async def _watch(self) -> None:
        """Now and then: see that the topic is still the same, and report the lag to Kafka's tools.

        A topic that is deleted and made again under a living recorder is noticed here; by its
        offsets alone it would look like the old one as soon as it has grown as long.
        """
        settings = self._settings
        client, topic = settings.kafka_client(), settings.acta_topic
        lag = LagReport(client, topic, f"{settings.topic_prefix}.recorder")
        try:
            while True:
                await self._sleep(_WATCH_S)
                await lag.commit({n: at for n, at in self.partitions.items() if at >= 0})
                try:
                    facts = await inspect_topic(client, topic)
                except Exception as error:  # noqa: BLE001  (asked again soon)
                    _log.info("topic not inspected reason=%s", error)
                else:
                    self._check_same(facts)
        finally:
            await lag.close()

    def _check_same(self, facts: TopicFacts | None) -> None:
        entered = self._facts
        # A broker that has just come back may not know it yet; one made again has another id.
        if entered is not None and facts not in (None, entered):
            raise LogRefusedError(
                f"The topic {entered.name} was made again, or given other partitions, while it was "
                "recorded. What was recorded so far is kept; nothing more is. Restore the "
                "topic, or start a new log with a database of its own."
            )

    async def _enter(self) -> tuple[TopicFacts, int]:
        settings = self._settings
        facts = await ensure_topic(
            settings.kafka_client(), settings.acta_topic, settings.partitions
        )
        self._conn = await connect(
            self._dsn, name="chronica recorder (membership)", options=_SESSION_OPTIONS
        )
        await self._answer(check_schema(self._conn))
        await self._answer(pin_topic(self._conn, _TOPIC, facts.topic_id, facts.partitions))
        generation = await self._answer(live_generation(self._conn))
        await self._answer(enter_membership(self._conn, generation, self._number))
        self._facts = facts
        return facts, generation

    async def _answer(self, work: Awaitable[_T]) -> _T:
        assert self._conn is not None, "connected"
        try:
            return await within(self._conn, work, timeout_s=_ANSWER_S)
        except psycopg.Error as error:
            raise sorted_error(error) from error

    async def _leave(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            await conn.close()

    async def _tick(self, facts: TopicFacts, generation: int) -> None:
        assert self._conn is not None, "entered"
        for partition, (_shell, task) in list(self._work.items()):
            if task.done():
                del self._work[partition]
                if not task.cancelled():  # nobody cancels it but by mistake: it is claimed again
                    task.result()  # raises what it was refused for
        ended = await self._answer(
            end_hung_sessions(self._conn, generation, after_s=self._hung_after_s)
        )
        now = await self._answer(sharing(self._conn, generation))
        if ended:
            _log.warning("ended sessions of a recorder that hangs count=%d", ended)
        share = fair_share(facts.partitions, now.members, self._number)
        for partition in to_give_up(self._work, share):
            self._work[partition][0].stop()
        for partition in to_claim(facts.partitions, self._work, now.held, share):
            shell = PartitionShell(
                client=self._settings.kafka_client(),
                dsn=self._dsn,
                topic=_TOPIC,
                facts=facts,
                partition=partition,
                limits=self._limits,
                sleep=self._sleep,
                jitter=self._jitter,
            )
            self._work[partition] = (shell, asyncio.create_task(shell.run()))

    async def _pause(self, seconds: float) -> None:
        """Wait, but not past the end of any partition's work."""
        pause = asyncio.ensure_future(self._sleep(seconds))
        tasks = [task for _shell, task in self._work.values() if not task.done()]
        try:
            await asyncio.wait([pause, *tasks], return_when=asyncio.FIRST_COMPLETED)
        finally:
            pause.cancel()

    async def _finish(self, live: asyncio.Task[None]) -> None:
        """Leave first, so that the others count without us; then end the work, within bounds."""
        self._hang_up()
        live.cancel()
        await asyncio.gather(live, return_exceptions=True)
        await self._leave()
        for shell, _task in self._work.values():
            shell.stop()
        tasks = [task for _shell, task in self._work.values()]
        if tasks:
            _done, late = await asyncio.wait(tasks, timeout=_FINISH_WITHIN_S)
            for shell, task in self._work.values():
                if task in late:
                    shell.hang_up()
                    task.cancel()
            for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(outcome, Exception):
                    _log.warning("partition ended reason=%s", outcome)
        self._work.clear()

    def _hang_up(self) -> None:
        if self._conn is not None:
            hang_up(self._conn)
