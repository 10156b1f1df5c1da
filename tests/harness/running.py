"""A log that is being recorded, in this process: what tests on real Kafka and Postgres stand on.

The recorder has an event loop and a thread of its own, so that it outlives the loop of any one test
and goes on while a test's own loop waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Self, TypeVar

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from chronica.infra.settings import Settings
from chronica.projections import migrate
from chronica.recorder import Recorder

__all__ = [
    "LoopThread",
    "RunningRecorder",
    "dsn_of",
    "fresh_database",
    "new_prefix",
    "recorded",
    "soaking",
    "until",
]

_T = TypeVar("_T")


def soaking(full: int, otherwise: int) -> int:
    """Return the count of a long run: full under ``make soak``, about a tenth otherwise."""
    return full if os.environ.get("CHRONICA_SOAK", "") not in ("", "0") else otherwise


def dsn_of(settings: Settings) -> str:
    """Return the settings' connection string."""
    assert settings.postgres_dsn is not None
    return settings.postgres_dsn.get_secret_value()


def new_prefix(name: str) -> str:
    """Return a prefix of topic names that nothing else has."""
    return f"t-{name}-{secrets.token_hex(4)}"


def until(condition: Callable[[], bool], what: str, *, within_s: float = 30.0) -> None:
    """Wait until a condition holds; blocks the thread it is called in."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
        time.sleep(0.02)


class LoopThread:
    """An event loop that runs in a thread of its own for as long as the ``with`` lasts."""

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()
        return self

    def _live(self) -> None:
        self._loop.run_forever()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def begin(self, work: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Start a coroutine there."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, _T], *, within_s: float = 60.0) -> _T:
        """Run a coroutine there and return what it returns."""
        return self.begin(work).result(within_s)

    def call(self, function: Callable[[], None]) -> None:
        """Call a function there, soon."""
        self._loop.call_soon_threadsafe(function)


@contextmanager
def fresh_database(server_dsn: str) -> Iterator[str]:
    """Make an empty database, and drop it after the block."""
    name = f"test_{secrets.token_hex(6)}"
    with psycopg.connect(server_dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    parts = conninfo_to_dict(server_dsn)
    yield f"postgresql://{parts['user']}:{parts['password']}@{parts['host']}:{parts['port']}/{name}"
    with psycopg.connect(server_dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


class RunningRecorder:
    """One recorder of a log, in a thread of its own."""

    def __init__(self, settings: Settings, thread: LoopThread) -> None:
        self._thread = thread
        self.recorder = Recorder(settings)
        self._run = thread.begin(self.recorder.run())

    @property
    def claimed(self) -> int:
        """How many partitions it holds and knows where to go on."""
        return sum(offset >= 0 for offset in dict(self.recorder.partitions).values())

    def until_claimed(self, partitions: int) -> None:
        """Wait until it holds so many; an error that ended it is raised here."""

        def claimed() -> bool:
            if self._run.done():
                self._run.result()
            return self.claimed == partitions

        until(claimed, f"{partitions} partitions are claimed")

    def stop(self) -> None:
        """Stop it, within the 5 s it promises; an error that ended it is raised here."""
        self._thread.call(self.recorder.stop)
        self._run.result(5.0)


@contextmanager
def recorded(settings: Settings) -> Iterator[RunningRecorder]:
    """Migrate the database, and record the log until the block ends."""
    migrate(dsn_of(settings))
    with LoopThread() as thread:
        running = RunningRecorder(settings, thread)
        try:
            running.until_claimed(settings.partitions)
            yield running
        except BaseException:
            with contextlib.suppress(Exception):
                running.stop()
            raise
        running.stop()
