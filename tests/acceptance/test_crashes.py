"""Recorders, Postgres and Kafka killed under load: nothing lost, nothing twice, order kept.

The servers are this module's own, so that no other test is disturbed. Counts are a tenth of those
of ``make soak`` otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.harness.load import under_load
from tests.harness.processes import RecorderProcesses, recorder_processes
from tests.harness.running import (
    LoopThread,
    RunningRecorder,
    dsn_of,
    fresh_database,
    new_prefix,
    soaking,
)
from tests.harness.servers import own_servers

from chronica.infra.embedded import EmbeddedKafka, EmbeddedPostgres
from chronica.infra.settings import Settings
from chronica.projections import connect as connect_postgres
from chronica.projections import migrate, sharing

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]

PARTITIONS = 8


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[EmbeddedKafka, EmbeddedPostgres]]:
    """Servers that may be killed."""
    with own_servers() as servers:
        yield servers


@pytest.fixture
async def postgres(servers: tuple[EmbeddedKafka, EmbeddedPostgres]) -> EmbeddedPostgres:
    await servers[1].start()  # what a failed test may have left undone
    return servers[1]


@pytest.fixture
async def kafka(servers: tuple[EmbeddedKafka, EmbeddedPostgres]) -> EmbeddedKafka:
    await servers[0].start()
    return servers[0]


@pytest.fixture
def log(kafka: EmbeddedKafka, postgres: EmbeddedPostgres) -> Iterator[Settings]:
    with fresh_database(postgres.dsn) as dsn:
        migrate(dsn)
        yield Settings(
            kafka_bootstrap_servers=kafka.bootstrap_servers,
            postgres_dsn=dsn,
            topic_prefix=new_prefix("crashes"),
            partitions=PARTITIONS,
        )


@pytest.fixture
def recorders(log: Settings, tmp_path: Path) -> Iterator[RecorderProcesses]:
    with recorder_processes(log, tmp_path) as recorders:
        yield recorders


@pytest.fixture
def seed() -> int:
    seed = secrets.randbits(32)
    print(f"seed={seed}")  # shown when the test fails
    return seed


async def until_shared(log: Settings, members: int, *, within_s: float = 60.0) -> None:
    """Wait until so many recorders live and every partition is held by one."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        with contextlib.suppress(Exception):
            connection = await connect_postgres(dsn_of(log), name="test")
            try:
                now = await sharing(connection, 1)
            finally:
                await connection.close()
            if len(now.members) == members and len(now.held) == PARTITIONS:
                return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{members} recorders do not share {PARTITIONS} partitions")


async def test_killed_recorders_lose_nothing_and_double_nothing(
    log: Settings, recorders: RecorderProcesses, seed: int
) -> None:
    choices = random.Random(seed)
    recorders.start()
    recorders.start()
    await until_shared(log, 2)
    async with under_load(log, seed) as load:
        for _ in range(soaking(30, 3)):
            await asyncio.sleep(choices.uniform(0.1, 1.0))
            recorders.kill(choices.choice(recorders.live))
            recorders.start()
            await load.progress(20)
            recorders.check_alive()
        await until_shared(log, 2)  # the last one started has come so far, too


async def test_a_killed_postgres_takes_back_nothing_that_was_acknowledged(
    log: Settings, recorders: RecorderProcesses, postgres: EmbeddedPostgres, seed: int
) -> None:
    choices = random.Random(seed)
    recorders.start()
    recorders.start()
    await until_shared(log, 2)
    async with under_load(log, seed) as load:
        for number in range(soaking(10, 2)):
            await load.progress(100)
            await asyncio.sleep(choices.uniform(0.0, 0.5))
            # What the last commits wrote may be gone. Every other time the recorders are frozen
            # before they can write it again, so that a read can only wait, or be wrong.
            frozen = list(recorders.live) if number % 2 == 0 else []
            for recorder in frozen:
                recorder.send(signal.SIGSTOP)
            await postgres.kill()
            await postgres.start()
            reading = asyncio.create_task(load.read_all())
            await asyncio.sleep(1.0 if frozen else 0.0)
            for recorder in frozen:
                recorder.send(signal.SIGCONT)
            await reading
            await load.progress(20)
            recorders.check_alive()


async def test_a_kafka_that_is_stopped_or_killed_is_waited_out(
    log: Settings, recorders: RecorderProcesses, kafka: EmbeddedKafka, seed: int
) -> None:
    recorders.start()
    await until_shared(log, 1)
    async with under_load(log, seed) as load:
        for number in range(soaking(4, 1)):
            await (kafka.kill() if number % 2 else kafka.stop())
            # Longer than a writer's deadline: clients are told, and retry.
            await asyncio.sleep(11.0)
            await load.read_what_is_recorded()  # without Kafka
            await kafka.start()
            await load.progress(50)
            await load.read_all()
            recorders.check_alive()
        told = load.ledger.errors["NotAppendedError"] + load.ledger.errors["AppendUnknownError"]
        assert told, "nobody was told"


async def test_a_postgres_that_is_down_while_recorders_claim_is_waited_out(
    log: Settings, recorders: RecorderProcesses, postgres: EmbeddedPostgres, seed: int
) -> None:
    choices = random.Random(seed)
    recorders.start()
    await until_shared(log, 1)
    async with under_load(log, seed) as load:
        for number in range(soaking(6, 2)):
            recorders.kill(recorders.live[0])
            if number % 2:
                recorders.start()
                await asyncio.sleep(choices.uniform(0.5, 2.0))  # killed in the midst of claims
                await postgres.kill()
            else:
                await postgres.stop()
                recorders.start()
                await asyncio.sleep(2.0)
            recorders.check_alive()
            await postgres.start()
            await load.progress(50)
            recorders.check_alive()
        await until_shared(log, 1)


@pytest.mark.skipif(soaking(0, 1) == 1, reason="takes the minute of a session's idle timeout")
async def test_a_frozen_recorder_is_taken_over_from_and_wakes_up_as_no_zombie(
    log: Settings, recorders: RecorderProcesses, seed: int
) -> None:
    frozen = recorders.start()
    recorders.start()
    await until_shared(log, 2)
    async with under_load(log, seed) as load:
        frozen.send(signal.SIGSTOP)
        # Its half of the partitions stands still until Postgres ends its sessions.
        await asyncio.sleep(75.0)
        await load.read_all()
        await load.progress(200)
        frozen.send(signal.SIGCONT)
        await until_shared(log, 2)
        await load.progress(200)
        recorders.check_alive()


@pytest.fixture
async def threads() -> AsyncIterator[list[LoopThread]]:
    with LoopThread() as one, LoopThread() as two, LoopThread() as three:
        yield [one, two, three]


async def until_even(recorders: list[RunningRecorder], *, within_s: float = 30.0) -> None:
    deadline = time.monotonic() + within_s
    while True:
        shares = [recorder.claimed for recorder in recorders]
        if sum(shares) == PARTITIONS and max(shares) - min(shares) <= 1:
            return
        assert time.monotonic() < deadline, f"the shares stay at {shares}"
        await asyncio.sleep(0.05)


async def test_recorders_that_come_and_go_share_evenly_and_keep_the_order(
    log: Settings, threads: list[LoopThread], seed: int
) -> None:
    live = [RunningRecorder(log, thread) for thread in threads[:2]]
    await until_even(live)
    async with under_load(log, seed) as load:
        for _ in range(soaking(5, 1)):
            await load.progress(100)
            live.append(RunningRecorder(log, threads[2]))
            await until_even(live)
            await load.progress(100)
            for leaving in (live.pop(0), live.pop(0)):
                await asyncio.to_thread(leaving.stop)
            await until_even(live)
            await load.progress(100)
            live.append(RunningRecorder(log, threads[0]))
            await until_even(live)
    for recorder in live:
        await asyncio.to_thread(recorder.stop)
