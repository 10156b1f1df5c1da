"""What the routes stand on: a writer and a reader, opened as soon as Kafka can be reached.

The API starts without them and answers 503 until they are there, so the order in which a fleet's
parts come up does not matter.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Self

from fastapi import Request

from chronica.acta import StoreUnavailableError
from chronica.api._answers import event_of
from chronica.api._metrics import follow_writer
from chronica.infra.settings import Settings
from chronica.log import (
    LogEnds,
    LogPeek,
    LogRefusedError,
    LogUnavailableError,
    LogWriter,
    TopicFacts,
)
from chronica.log import inspect_topic as inspect
from chronica.store import Feed, Reader, Submitter

__all__ = ["Backend", "Opened", "backend_of"]

_log = logging.getLogger("chronica.api")

_WAIT_MAX_S = 2.0
_AWAY_WAIT_S = 0.25
# A client does better with an early "unknown" and its key than with a connection that hangs.
_APPEND_DEADLINE_S = 5.0


@dataclass(frozen=True, slots=True)
class Opened:
    """The parts, once Kafka was reached."""

    facts: TopicFacts
    submitter: Submitter
    reader: Reader
    stable_ends: LogEnds
    """Ends below any open transaction, where those of ``reader.ends`` are above."""
    peek: LogPeek
    """Single records, to tell whose they are."""
    feed: Feed
    """What is followed live."""


class Backend:
    """Opens the parts in the background and closes them at the end.

    Args:
        settings: with the addresses of Kafka and Postgres.
        decision_wait_s: how long a POST waits for its decision; then 202.
        sleep: injected; waits between attempts.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        decision_wait_s: float = 5.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._settings = settings
        self._decision_wait_s = decision_wait_s
        self._sleep = sleep
        self._opened: Opened | None = None
        self._reason = "The API is starting: try again."
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Begin to open; returns at once."""
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close every part, the writer first: what it has queued is still sent."""
        self._closing.set()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    def end_streams(self) -> None:
        """Let every stream end now: the process drains, and they would never end by themselves."""
        if self._opened is not None:
            self._opened.feed.end()

    @property
    def settings(self) -> Settings:
        """The settings it was made with."""
        return self._settings

    @property
    def reason(self) -> str:
        """Why the parts are not there yet."""
        return self._reason

    @property
    def opened(self) -> Opened:
        """The parts.

        Raises:
            StoreUnavailableError: they are not there yet.
        """
        if self._opened is None:
            raise StoreUnavailableError(self._reason)
        return self._opened

    async def _run(self) -> None:
        attempts = 0
        async with AsyncExitStack() as stack:
            while not self._closing.is_set():
                try:
                    self._opened = await self._open(stack)
                    break
                except (LogUnavailableError, LogRefusedError) as problem:
                    self._reason = str(problem)
                    _log.warning("api waits for kafka reason=%s", problem)
                except Exception as problem:  # noqa: BLE001
                    # Whatever it is, the API must not stay without its parts for ever.
                    self._reason = "The API can't open its parts: its log says why. Try again."
                    _log.exception("api can't open its parts reason=%s", type(problem).__name__)
                attempts += 1
                wait_s = min(0.1 * 2 ** min(attempts, 6), _WAIT_MAX_S) * (0.5 + random.random() / 2)  # noqa: S311
                await self._pause(wait_s)
            await self._closing.wait()

    async def _pause(self, seconds: float) -> None:
        closing = asyncio.ensure_future(self._closing.wait())
        pause = asyncio.ensure_future(self._sleep(seconds))
        await asyncio.wait([closing, pause], return_when=asyncio.FIRST_COMPLETED)
        closing.cancel()
        pause.cancel()

    async def _open(self, stack: AsyncExitStack) -> Opened:
        settings = self._settings
        client = settings.kafka_client()
        facts = await inspect(client, settings.acta_topic)
        if facts is None:
            raise LogUnavailableError(
                f"The log has no topic {settings.acta_topic} yet: a recorder makes it."
            )
        async with AsyncExitStack() as opening:  # an attempt that fails leaves nothing open
            reader = await opening.enter_async_context(Reader(settings, facts))
            feed = await opening.enter_async_context(Feed(reader, event_of))
            stable = LogEnds(client, facts.name, isolation_level="read_committed")
            opening.push_async_callback(stable.close)
            peek = LogPeek(client, facts)
            opening.push_async_callback(peek.close)
            writer = await opening.enter_async_context(
                LogWriter(
                    client,
                    topic=settings.acta_topic,
                    tenant=settings.tenant,
                    deadline_s=_APPEND_DEADLINE_S,
                )
            )
            submitter = Submitter(
                writer,
                reader,
                decision_wait_s=self._decision_wait_s,
                away_wait_s=_AWAY_WAIT_S,
            )
            watching = asyncio.create_task(follow_writer(writer))
            opening.callback(watching.cancel)
            stack.push_async_exit(opening.pop_all())
        return Opened(facts, submitter, reader, stable, peek, feed)


def backend_of(request: Request) -> Backend:
    """Return the backend of the application that a request came to."""
    backend: Backend = request.app.state.backend
    return backend
