"""A whole stack in this process: servers, topics, schema, recorder and API, started and stopped.

The order of stopping is that of dependence: the API drains while all it needs is there, the
recorder finishes its batches, then Postgres and Kafka go. Each step is bounded, and a second
Ctrl-C cuts short what is under way.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from rich.console import Console

from chronica.api import ApiServer, ApiStartError, check_address
from chronica.infra.embedded import DataDir, RunningStack, read_running
from chronica.infra.settings import Settings
from chronica.log import ensure_topic
from chronica.projections import migrate
from chronica.recorder import Recorder

from ._embedded import EmbeddedServers
from ._readiness import until_ready
from ._steps import Steps
from ._stopping import Stop
from ._terminal import CommandError

__all__ = ["Stack"]

_log = logging.getLogger("chronica.up")

_SCHEMA = "Topics and schema"
_SERVING = "Recorder and API"
_RECORDER_STOP_S = 6.0


class Stack:
    """One stack, held by this process.

    Args:
        settings: addresses that are missing mean embedded servers.
        console: progress goes there.
    """

    def __init__(self, settings: Settings, console: Console) -> None:
        self.settings = settings
        self.data_dir = DataDir(settings.data_dir)
        self._console = console
        self._servers = EmbeddedServers(settings, self.data_dir, console)
        self._opened = False
        self._api: ApiServer | None = None
        self._recorder: tuple[Recorder, asyncio.Task[None]] | None = None
        self._watch: asyncio.Task[None] | None = None

    @property
    def started(self) -> bool:
        """Whether there is anything to stop."""
        return self._opened

    @property
    def url(self) -> str:
        """Where the API serves."""
        assert self._api is not None, "started"
        return self._api.url

    async def start(self, *, pinned_partitions: int | None = None) -> None:
        """Start all parts and return when the stack is ready.

        Args:
            pinned_partitions: the count that was asked for; a log that has another is refused.

        Raises:
            StartError, ApiStartError, LogRefusedError, LogUnavailableError, SchemaRefusedError,
            PostgresUnavailableError, CommandError: a part can't start; ``stop`` the others.
        """
        await asyncio.to_thread(self._check_address)
        await asyncio.to_thread(self.data_dir.open)
        self._opened = True
        with Steps(self._console) as steps:
            for name in self._servers.names:
                steps.begin(name)
            self.settings = await self._servers.start(steps.done)
            steps.begin(_SCHEMA)
            await self._prepare(pinned_partitions)
            steps.done(_SCHEMA)
            steps.begin(_SERVING)
            await self._serve()
            steps.done(_SERVING)

    def _check_address(self) -> None:
        """Check the address while no directory is made yet that nothing would be in."""
        try:
            check_address(self.settings)
        except ApiStartError:
            if read_running(self.data_dir.path) is not None:
                # This stack's own first start has the port: that the data is in use says more.
                with self.data_dir:
                    pass
            raise

    async def _prepare(self, pinned_partitions: int | None) -> None:
        settings = self.settings
        assert settings.postgres_dsn is not None, "both addresses are there"
        facts = await ensure_topic(
            settings.kafka_client(), settings.acta_topic, settings.partitions
        )
        if pinned_partitions not in (None, facts.partitions):
            raise CommandError(
                f"The topic {facts.name} has {facts.partitions} partitions for the life of the "
                f"log, not {pinned_partitions}: leave out --partitions, or choose another data "
                "directory. Nothing was changed."
            )
        await asyncio.to_thread(migrate, settings.postgres_dsn.get_secret_value())

    async def _serve(self) -> None:
        settings = self.settings
        assert settings.postgres_dsn is not None, "both addresses are there"
        self._api = ApiServer(settings)
        await self._api.start()
        recorder = Recorder(settings)
        self._recorder = (recorder, asyncio.create_task(recorder.run()))
        self.data_dir.publish(
            RunningStack(
                pid=os.getpid(),
                api=self.url,
                kafka=settings.kafka_bootstrap_servers or "",
                postgres=settings.postgres_dsn.get_secret_value(),
            )
        )
        await self._kept_until(until_ready(self.url, self._recorder[1]))

    async def _kept_until(self, ready: Coroutine[Any, Any, None]) -> None:
        """Wait until the stack is ready; a server that dies meanwhile is started again."""
        watch = self._watch = asyncio.create_task(self._servers.keep())
        waiting = asyncio.create_task(ready)
        try:
            await asyncio.wait([waiting, watch], return_when=asyncio.FIRST_COMPLETED)
            if watch.done():
                watch.result()  # raises why it can't be started again
            await waiting
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)

    async def keep(self) -> None:
        """Keep all parts alive; never returns.

        Raises:
            LogRefusedError, SchemaRefusedError, StartError, CommandError: a part is gone for good.
        """
        assert self._recorder is not None, "started"
        assert self._api is not None, "started"
        assert self._watch is not None, "started"
        parts = {
            asyncio.ensure_future(asyncio.shield(self._watch)): "The watch over the servers",
            asyncio.ensure_future(asyncio.shield(self._recorder[1])): "The recorder",
            asyncio.ensure_future(self._api.wait()): "The API",
        }
        try:
            done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            for part in done:
                part.result()
                raise CommandError(
                    f"{parts[part]} ended by itself, so the stack was stopped: what was "
                    "acknowledged is kept. Run the command again, and report it if it recurs."
                )
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)

    async def stop(self, stop: Stop) -> None:
        """Stop what was started, in order; a step that ``stop.hurry`` interrupts is cut short."""
        if self._watch is not None:
            self._watch.cancel()  # else it would start again what is stopped here
            await asyncio.gather(self._watch, return_exceptions=True)
        if self._opened:
            self.data_dir.unpublish()
        if self._api is not None:
            await _unless(stop.hurry, self._api.stop)
        if self._recorder is not None:
            await _unless(stop.hurry, self._stop_recorder)
            self._recorder[1].cancel()
        if not await _unless(stop.hurry, self._servers.stop):
            await self._servers.kill()
        if self._opened:
            self.data_dir.close()

    async def _stop_recorder(self) -> None:
        assert self._recorder is not None, "asked by stop"
        recorder, task = self._recorder
        recorder.stop()
        _done, late = await asyncio.wait([task], timeout=_RECORDER_STOP_S)
        if late:
            task.cancel()
            await asyncio.wait([task], timeout=_RECORDER_STOP_S)


async def _unless(hurry: asyncio.Event, step: Callable[[], Awaitable[None]]) -> bool:
    """Take a step of stopping unless, or until, it is to hurry; tell whether it was finished."""
    work = asyncio.ensure_future(step())
    hurried = asyncio.ensure_future(hurry.wait())
    try:
        await asyncio.wait([work, hurried], return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            work.cancel()
        (outcome,) = await asyncio.gather(work, return_exceptions=True)
        if isinstance(outcome, Exception):
            _log.warning("a part did not stop cleanly: %s", outcome)
        return not isinstance(outcome, BaseException)
    finally:
        hurried.cancel()
