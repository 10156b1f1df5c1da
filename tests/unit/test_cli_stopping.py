"""Starting and stopping: signals, a recorder that is refused, and one that doesn't end."""

from __future__ import annotations

import asyncio
import io
import os
import signal
from pathlib import Path
from typing import cast

import pytest
from pydantic import SecretStr
from rich.console import Console

from chronica.infra.cli import _recorder as recorder_command
from chronica.infra.cli._embedded import EmbeddedServers
from chronica.infra.cli._recorder import record_until, tell_partitions
from chronica.infra.cli._run import _first, run_stack
from chronica.infra.cli._stack import Stack, _unless
from chronica.infra.cli._stopping import Stop, stop_on_signals
from chronica.infra.embedded import StartError
from chronica.infra.settings import Settings
from chronica.log import LogRefusedError
from chronica.recorder import Recorder


class Fake:
    """A recorder that ends when it is asked to, unless it hangs or is refused."""

    def __init__(self, *, hangs: bool = False, refused: bool = False) -> None:
        self.hangs, self.refused = hangs, refused
        self.stopped = asyncio.Event()
        self.cancelled = False

    async def run(self) -> None:
        if self.refused:
            raise LogRefusedError("The log is not what it was.")
        try:
            await (asyncio.Event() if self.hangs else self.stopped).wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise

    def stop(self) -> None:
        self.stopped.set()


def as_recorder(fake: Fake) -> Recorder:
    return cast("Recorder", fake)


async def test_the_first_signal_asks_and_the_second_hurries() -> None:
    with stop_on_signals() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(stop.asked.wait(), 5)
        assert not stop.hurry.is_set()
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.wait_for(stop.hurry.wait(), 5)


async def test_a_recorder_runs_until_it_is_asked_to_stop() -> None:
    stop, fake = Stop(), Fake()
    running = asyncio.create_task(record_until(stop, as_recorder(fake)))
    await asyncio.sleep(0.01)
    assert not running.done()
    stop.ask()
    await running
    assert not fake.cancelled


async def test_a_recorder_that_is_refused_says_why() -> None:
    with pytest.raises(LogRefusedError, match="not what it was"):
        await record_until(Stop(), as_recorder(Fake(refused=True)))


async def test_a_recorder_that_waits_for_what_never_answers_is_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recorder_command, "_STOP_WITHIN_S", 0.05)
    stop, fake = Stop(), Fake(hangs=True)
    stop.ask()
    await asyncio.wait_for(record_until(stop, as_recorder(fake)), 5)
    assert fake.cancelled


async def test_a_second_signal_does_not_wait_for_the_recorder() -> None:
    stop, fake = Stop(), Fake(hangs=True)
    stop.ask()
    stop.ask()
    await asyncio.wait_for(record_until(stop, as_recorder(fake)), 2)
    assert fake.cancelled


async def test_work_ends_with_the_part_that_fails() -> None:
    async def fails() -> None:
        raise LogRefusedError("gone")

    with pytest.raises(LogRefusedError):
        await _first(asyncio.sleep(60), fails())
    assert await _first(asyncio.sleep(0), asyncio.sleep(60))
    assert not await _first(asyncio.sleep(60), asyncio.sleep(0))


async def test_a_step_of_stopping_is_cut_short_when_it_is_to_hurry() -> None:
    hurry = asyncio.Event()

    async def quick() -> None:
        await asyncio.sleep(0)

    async def slow() -> None:
        await asyncio.sleep(60)

    async def broken() -> None:
        raise RuntimeError("no")

    assert await _unless(hurry, quick)
    assert not await _unless(hurry, broken), "the next steps are taken all the same"
    asyncio.get_running_loop().call_later(0.05, hurry.set)
    assert not await _unless(hurry, slow)


async def test_the_partitions_are_told_when_they_change(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    held = iter([{}, {0: -1}, {0: 5}, {0: 6}, {0: 7, 2: 0}, {}])

    def next_held() -> dict[int, int]:
        try:
            return next(held)
        except StopIteration:
            raise asyncio.CancelledError from None

    with pytest.raises(asyncio.CancelledError):
        await tell_partitions(next_held, poll_s=0)
    assert [record.getMessage() for record in caplog.records] == [
        "recorder holds partitions=0",
        "recorder holds partitions=0,2",
        "recorder holds partitions=none",
    ]


class Servers:
    """Embedded servers whose watch sees one die, and can't start it again if that is asked for."""

    def __init__(self, *, gone: bool) -> None:
        self.gone = gone
        self.again = asyncio.Event()

    async def keep(self) -> None:
        if self.gone:
            raise StartError("Postgres can't be started again.")
        self.again.set()
        await asyncio.Event().wait()


async def test_the_servers_are_watched_while_the_stack_gets_ready(tmp_path: Path) -> None:
    settings = Settings(
        data_dir=tmp_path, kafka_bootstrap_servers="k:1", postgres_dsn=SecretStr("")
    )
    stack = Stack(settings, Console(file=io.StringIO()))
    servers = Servers(gone=False)
    stack._servers = cast("EmbeddedServers", servers)

    async def ready() -> None:
        await servers.again.wait()

    await asyncio.wait_for(stack._kept_until(ready()), 5)
    assert stack._watch is not None
    assert not stack._watch.done(), "it goes on"
    stack._watch.cancel()

    stack._servers = cast("EmbeddedServers", Servers(gone=True))
    with pytest.raises(StartError):
        await asyncio.wait_for(stack._kept_until(asyncio.sleep(60)), 5)


@pytest.mark.parametrize("started", [True, False])
async def test_nothing_is_stopped_that_was_not_started(
    started: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refused:
        def __init__(self, *_arguments: object) -> None:
            self.started = started

        async def start(self, **_options: object) -> None:
            raise StartError("no")

        async def stop(self, _stop: Stop) -> None:
            assert started

    async def work(_stack: Stack, _stop: Stop) -> None:
        pytest.fail("it can't have started")

    monkeypatch.setattr("chronica.infra.cli._run.Stack", Refused)
    console = Console(file=io.StringIO())
    with pytest.raises(StartError):
        await run_stack(Settings(), console, work)
    assert isinstance(console.file, io.StringIO)
    assert ("Stopping" in console.file.getvalue()) is started
