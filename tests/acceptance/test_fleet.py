"""A fleet at work while processes die and servers go away: the claim, over HTTP.

Times are a tenth of those of ``make soak`` otherwise.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from tests.harness.api_processes import api_process
from tests.harness.fleet import OWNER, Fleet
from tests.harness.http import acta_path
from tests.harness.processes import RecorderProcesses, recorder_processes
from tests.harness.running import fresh_database, new_prefix, soaking
from tests.harness.servers import own_servers

from chronica.infra.embedded import EmbeddedKafka, EmbeddedPostgres
from chronica.infra.settings import Settings
from chronica.projections import migrate

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[EmbeddedKafka, EmbeddedPostgres]]:
    """Servers that may be stopped."""
    with own_servers() as servers:
        yield servers


@pytest.fixture
def log(servers: tuple[EmbeddedKafka, EmbeddedPostgres]) -> Iterator[Settings]:
    kafka, postgres = servers
    with fresh_database(postgres.dsn) as dsn:
        migrate(dsn)
        yield Settings(
            kafka_bootstrap_servers=kafka.bootstrap_servers,
            postgres_dsn=dsn,
            topic_prefix=new_prefix("fleet"),
        )


@pytest.fixture
def recorders(log: Settings, tmp_path: Path) -> Iterator[RecorderProcesses]:
    with recorder_processes(log, tmp_path) as recorders:
        recorders.start()
        yield recorders


@pytest.fixture
def seed() -> int:
    seed = secrets.randbits(32)
    print(f"seed={seed}")  # shown when the test fails
    return seed


async def test_workers_killed_under_a_fleet_lose_nothing_and_double_nothing(
    log: Settings, recorders: RecorderProcesses, tmp_path: Path, seed: int
) -> None:
    choose = random.Random(seed)
    with api_process(log, 3, tmp_path / "api.log") as api:
        await asyncio.to_thread(api.until_ready)
        fleet = Fleet(api.url, 16, seed)
        for _ in range(soaking(6, 1)):
            await asyncio.sleep(8.0)
            stopped, killed = choose.sample(api.workers, 2)
            os.kill(stopped, signal.SIGTERM)
            os.kill(killed, signal.SIGKILL)
            await asyncio.sleep(2.0)
        await fleet.progress(100)
        await fleet.stop()
        await fleet.check(api.url)
        print(f"{fleet.count} acknowledged, answers {dict(fleet.answers)}")
        assert await asyncio.to_thread(api.stop) == 0, api.log
    recorders.check_alive()


class Memory:
    """The memory of the API and the recorder, as it was at some moments."""

    def __init__(self, **pids: int) -> None:
        self._processes = {name: psutil.Process(pid) for name, pid in pids.items()}
        self.seen: list[str] = []

    def look(self, moment: str) -> dict[str, float]:
        now = {
            name: float(process.memory_info().rss) / 2**20
            for name, process in self._processes.items()
        }
        self.seen.append(f"{moment}: " + ", ".join(f"{n} {mb:.0f} MiB" for n, mb in now.items()))
        return now


async def until_drained(url: str, within_s: float) -> float:
    """Wait until nothing waits to be recorded; return how long it took."""
    began = time.monotonic()
    async with httpx.AsyncClient(base_url=url, timeout=10) as http:
        while time.monotonic() < began + within_s:
            ready = await http.get("/ready")
            if ready.status_code == 200 and not any(ready.json()["lag"]["acta"].values()):
                return time.monotonic() - began
            await asyncio.sleep(0.1)
    raise AssertionError(f"not drained: {ready.text}")


async def test_without_postgres_appends_go_on_and_reads_say_so(
    log: Settings,
    recorders: RecorderProcesses,
    servers: tuple[EmbeddedKafka, EmbeddedPostgres],
    tmp_path: Path,
    seed: int,
) -> None:
    _kafka, postgres = servers
    away_s = soaking(120, 8)
    with api_process(log, 1, tmp_path / "api.log") as api:
        await asyncio.to_thread(api.until_ready)
        memory = Memory(api=api.process.pid, recorder=recorders.live[0].pid)
        fleet = Fleet(api.url, 16, seed)
        await fleet.progress(500)
        before = memory.look("before")
        await postgres.stop()
        try:
            until = time.monotonic() + away_s
            await asyncio.sleep(1.0)
            fleet.answers.clear()
            async with httpx.AsyncClient(base_url=api.url, headers=OWNER, timeout=30) as http:
                while time.monotonic() < until:
                    began = time.monotonic()
                    answer = await http.get(acta_path(next(iter(fleet.sent))))
                    assert answer.status_code in (503, 504), answer.text
                    assert time.monotonic() - began < 10, "a read says so in bounded time"
                    await fleet.progress(1)
                    await asyncio.sleep(0.5)
            during = memory.look("during")
            assert fleet.answers[202] > 10 * away_s, "appends go on"
            assert not fleet.answers[503] + fleet.answers[504], fleet.answers
        finally:
            await postgres.start()
        drained_s = await until_drained(api.url, 120)
        await fleet.stop()
        after = memory.look("after")
        await fleet.check(api.url)
        print(
            f"{fleet.count} acknowledged, {fleet.answers[202]} while Postgres was away for "
            f"{away_s} s, drained in {drained_s:.1f} s; {'; '.join(memory.seen)}"
        )
        for name, mb in before.items():
            assert max(during[name], after[name]) < mb + 200, memory.seen
        assert await asyncio.to_thread(api.stop) == 0, api.log


async def test_without_kafka_appends_are_refused_quickly_and_go_on_by_themselves(
    log: Settings,
    recorders: RecorderProcesses,
    servers: tuple[EmbeddedKafka, EmbeddedPostgres],
    tmp_path: Path,
    seed: int,
) -> None:
    kafka, _postgres = servers
    away_s = soaking(30, 7)
    with api_process(log, 1, tmp_path / "api.log") as api:
        await asyncio.to_thread(api.until_ready)
        memory = Memory(api=api.process.pid, recorder=recorders.live[0].pid)
        fleet = Fleet(api.url, 16, seed)
        await fleet.progress(500)
        before = memory.look("before")
        await kafka.stop()
        try:
            await asyncio.sleep(away_s)
            fleet.slowest_s.pop(503, None)
            refused = fleet.answers[503]
            await asyncio.sleep(2.0)
            during = memory.look("during")
            assert fleet.answers[503] > refused, "appends are refused"
            assert fleet.slowest_s[503] < 2.0, "and quickly"
        finally:
            await kafka.start()
        began = time.monotonic()
        await fleet.progress(100, within_s=60)
        again_s = time.monotonic() - began
        await fleet.stop()
        await until_drained(api.url, 60)
        after = memory.look("after")
        await fleet.check(api.url)
        print(
            f"{fleet.count} acknowledged, answers {dict(fleet.answers)}; Kafka away for "
            f"{away_s} s, 100 more after {again_s:.1f} s; {'; '.join(memory.seen)}"
        )
        for name, mb in before.items():
            assert max(during[name], after[name]) < mb + 200, memory.seen
        assert await asyncio.to_thread(api.stop) == 0, api.log
