"""The embedded servers of a stack: those whose addresses the settings don't give."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable

from rich.console import Console

from chronica.infra.embedded import DataDir, EmbeddedKafka, EmbeddedPostgres
from chronica.infra.settings import Settings

from ._terminal import CommandError

__all__ = ["EmbeddedServers"]

_log = logging.getLogger("chronica.up")

_POLL_S = 0.25
_DEATHS_MAX = 5
_DEATHS_WITHIN_S = 60.0


class EmbeddedServers:
    """Starts the servers at once, starts again what dies, and stops them in order.

    Args:
        settings: with addresses for what runs elsewhere.
        data_dir: opened by the caller.
        console: where a progress bar is drawn while Kafka's jars come.
    """

    def __init__(self, settings: Settings, data_dir: DataDir, console: Console) -> None:
        self._settings = settings
        self._kafka: EmbeddedKafka | None = None
        self._postgres: EmbeddedPostgres | None = None
        if not settings.kafka_bootstrap_servers:
            self._kafka = EmbeddedKafka(data_dir.kafka, progress=console)
        if settings.postgres_dsn is None:
            self._postgres = EmbeddedPostgres(data_dir.postgres)
        # The order in which they stop.
        self._servers = [server for server in (self._postgres, self._kafka) if server is not None]

    @property
    def names(self) -> list[str]:
        """What is started here."""
        return [server.name for server in reversed(self._servers)]

    async def start(self, ready: Callable[[str], None]) -> Settings:
        """Start them and return the settings with both addresses.

        Args:
            ready: called with the name of each as soon as it serves.

        Raises:
            StartError: one can't start; the other is ended.
        """

        async def one(server: EmbeddedKafka | EmbeddedPostgres) -> None:
            await server.start()
            ready(server.name)

        tasks = [asyncio.ensure_future(one(server)) for server in self._servers]
        try:
            await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise
        addresses: dict[str, object] = {}
        if self._kafka is not None:
            addresses["kafka_bootstrap_servers"] = self._kafka.bootstrap_servers
        if self._postgres is not None:
            addresses["postgres_dsn"] = self._postgres.dsn
        return Settings(**{**self._settings.model_dump(exclude_unset=True), **addresses})

    async def keep(self) -> None:
        """Start again, with the same ports and data, whichever server dies; never returns.

        Raises:
            StartError: it can't be started again.
            CommandError: it dies again and again.
        """
        await asyncio.gather(*map(self._keep_one, self._servers), asyncio.Event().wait())

    async def _keep_one(self, server: EmbeddedKafka | EmbeddedPostgres) -> None:
        deaths: deque[float] = deque(maxlen=_DEATHS_MAX)
        while True:
            await asyncio.sleep(_POLL_S)
            if server.running:
                continue
            now = time.monotonic()
            if len(deaths) == _DEATHS_MAX and now - deaths[0] < _DEATHS_WITHIN_S:
                raise CommandError(
                    f"{server.name} ends again and again, so the stack was stopped: what was "
                    f"acknowledged is kept; see {server.log_path}, then run the command again."
                )
            deaths.append(now)
            _log.warning("%s ended by itself; it is started again", server.name)
            await server.start()
            _log.warning("%s serves again", server.name)

    async def stop(self) -> None:
        """Stop them, Postgres first."""
        for server in self._servers:
            await server.stop()

    async def kill(self) -> None:
        """End them at once, as a crash would: nothing that was acknowledged is lost."""
        for server in self._servers:
            await server.kill()
