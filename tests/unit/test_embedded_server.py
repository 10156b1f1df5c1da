"""The life of a server, with a stand-in for it, and what Kafka and Postgres refuse to start on."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import ClassVar

import pytest

from chronica.infra.embedded import (
    DataDirError,
    DataDirInUseError,
    DiskFullError,
    EmbeddedKafka,
    EmbeddedPostgres,
    NotRunningError,
    PortTakenError,
    ServerDiedError,
    StartTimeoutError,
    _kafka,
    _postgres,
    _server,
)
from chronica.infra.embedded._ports import LOOPBACK, free_port
from chronica.infra.embedded._server import Launch, Server, tail


class StandIn(Server):
    """A Python one-liner in the place of a server; ready when it has written the file `up`."""

    name = "Stand-in"
    start_timeout_s: ClassVar[float] = 10.0
    stop_timeout_s: ClassVar[float] = 5.0

    def __init__(self, directory: Path, code: str) -> None:
        super().__init__(directory)
        self.code = code

    def _prepare(self, cancelled: threading.Event) -> Launch:
        (self.directory / "up").unlink(missing_ok=True)
        return Launch(
            command=[sys.executable, "-c", self.code],
            cwd=self.directory,
            env=dict(os.environ),
            account=None,
            stops=[(signal.SIGTERM, 0.3)],
        )

    def _ready(self) -> bool:
        return (self.directory / "up").exists()


SERVES = "import time; open('up', 'w').close(); time.sleep(60)"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SERVES}"


@pytest.mark.parametrize("code", [SERVES, DEAF])
async def test_a_server_is_started_stopped_and_started_again(tmp_path: Path, code: str) -> None:
    server = StandIn(tmp_path, code)
    with pytest.raises(NotRunningError):
        _ = server.pid
    for end in (server.stop, server.kill):
        await server.start()
        pid = server.pid
        await server.start()  # does nothing
        assert server.pid == pid
        await end()
        assert not server.running
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        await end()  # does nothing


async def test_a_server_that_is_killed_from_outside_starts_again(tmp_path: Path) -> None:
    async with StandIn(tmp_path, SERVES) as server:
        os.kill(server.pid, signal.SIGKILL)
        while server.running:
            time.sleep(0.01)
        await server.start()
        assert server.running


async def test_a_server_that_dies_shows_its_last_words(tmp_path: Path) -> None:
    server = StandIn(tmp_path, "raise SystemExit('no memory')")
    with pytest.raises(ServerDiedError, match="no memory") as refusal:
        await server.start()
    assert str(server.log_path) in str(refusal.value)
    assert not server.running


async def test_a_server_that_cannot_be_run_says_so(tmp_path: Path) -> None:
    class Missing(StandIn):
        def _prepare(self, cancelled: threading.Event) -> Launch:
            launch = super()._prepare(cancelled)
            return Launch(**{**vars(launch), "command": ["/nonexistent/program"]})

    with pytest.raises(ServerDiedError, match="could not be run"):
        await Missing(tmp_path, SERVES).start()


async def test_a_disk_that_fills_up_is_one_sentence(tmp_path: Path) -> None:
    class Full(StandIn):
        def _prepare(self, cancelled: threading.Event) -> Launch:
            raise OSError(errno.ENOSPC, "No space left on device", str(self.directory / "data"))

    with pytest.raises(DiskFullError, match=r"The disk is full where .*data is: free some space"):
        await Full(tmp_path, SERVES).start()


async def test_a_server_that_never_gets_ready_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StandIn, "start_timeout_s", 0.3)
    server = StandIn(tmp_path, "import time; time.sleep(60)")
    with pytest.raises(StartTimeoutError, match="not ready after"):
        await server.start()
    assert not server.running


async def test_a_directory_serves_one_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_server, "_LEFTOVER_TIMEOUT_S", 0.2)
    async with StandIn(tmp_path, SERVES):
        with pytest.raises(DataDirInUseError):
            await StandIn(tmp_path, SERVES).start()


@pytest.mark.parametrize("code", [SERVES, DEAF])
def test_a_server_ends_with_a_starter_that_is_killed(tmp_path: Path, code: str) -> None:
    """Even while a child of the starter, forked off, keeps its end of the pipe open."""
    starter = f"""
import asyncio, importlib.util, os, sys, time
from pathlib import Path
spec = importlib.util.spec_from_file_location("stand_in", {__file__!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)

async def main():
    server = module.StandIn(Path({str(tmp_path)!r}), {code!r})
    await server.start()
    child = os.fork()
    if child == 0:
        time.sleep(20)
        os._exit(0)
    print(server.pid, child, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", starter], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        pid, child = map(int, process.stdout.readline().split())
        process.kill()
        process.wait()
        deadline = time.monotonic() + 5
        while Path(f"/proc/{pid}").exists() if sys.platform == "linux" else _alive(pid):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.kill(child, signal.SIGKILL)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_tail_of_a_log_leaves_out_what_is_older_and_java_frames(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("old\n")
    start = log.stat().st_size
    log.write_text("old\nERROR no\n\tat kafka.Kafka(Kafka.java:1)\n\nbye\n")
    assert tail(log, start) == "  ERROR no\n  bye"
    assert tail(tmp_path / "none", 0) == "  (no log)"


async def test_kafka_refuses_a_port_that_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_kafka, "ensure_jars", lambda **_: [])
    port = free_port()
    with socket.create_server((LOOPBACK, port)), pytest.raises(PortTakenError, match="for Kafka"):
        await EmbeddedKafka(tmp_path, port=port).start()


async def test_kafka_refuses_a_directory_that_lost_its_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_kafka, "ensure_jars", lambda **_: [])
    (tmp_path / "formatted").touch()
    with pytest.raises(DataDirError, match="has lost Kafka's files"):
        await EmbeddedKafka(tmp_path).start()


async def test_postgres_refuses_the_data_of_another_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_postgres, "server_account", lambda: None)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "PG_VERSION").write_text("17\n")
    with pytest.raises(DataDirError, match="made by PostgreSQL 17"):
        await EmbeddedPostgres(tmp_path).start()
