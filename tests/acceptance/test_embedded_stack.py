"""The embedded servers for real: they keep their data, and never outlive who started them."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from chronica.infra.embedded import (
    DataDir,
    DataDirInUseError,
    EmbeddedKafka,
    EmbeddedPostgres,
    ServerDiedError,
    read_running,
)

STARTER = """
import asyncio, json, sys
from pathlib import Path
from chronica.infra.embedded import DataDir, EmbeddedKafka, EmbeddedPostgres, RunningStack
import os

async def main():
    with DataDir(Path(sys.argv[1])) as data_dir:
        kafka, postgres = EmbeddedKafka(data_dir.kafka), EmbeddedPostgres(data_dir.postgres)
        await asyncio.gather(kafka.start(), postgres.start())
        data_dir.publish(RunningStack(
            pid=os.getpid(), api=None, kafka=kafka.bootstrap_servers, postgres=postgres.dsn))
        print(json.dumps({"pids": [kafka.pid, postgres.pid]}), flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.fixture
def data_dir() -> Iterator[DataDir]:
    data_dir = DataDir(Path(tempfile.mkdtemp(prefix="chronica-test-")))
    yield data_dir
    data_dir.remove()


@pytest.fixture
def closed_home() -> Iterator[Path]:
    """A home directory like root's: nobody else gets in."""
    with tempfile.TemporaryDirectory() as home:
        assert Path(home).stat().st_mode & 0o777 == 0o700
        yield Path(home)


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def until_gone(*pids: int, timeout_s: float = 20) -> None:
    deadline = time.monotonic() + timeout_s
    while not all(gone(pid) for pid in pids):
        assert time.monotonic() < deadline, "a server outlived its starter"
        await asyncio.sleep(0.05)


async def count_rows(dsn: str) -> int:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        row = await (await connection.execute("SELECT count(*) FROM kept")).fetchone()
    assert row is not None
    return int(row[0])


@pytest.fixture
async def kept_topic(kafka: EmbeddedKafka, topic_prefix: str) -> AsyncIterator[str]:
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    await admin.start()
    await admin.create_topics([NewTopic(topic_prefix, num_partitions=1, replication_factor=1)])
    yield topic_prefix
    await admin.delete_topics([topic_prefix])
    await admin.close()


async def test_kafka_keeps_what_it_acknowledged_when_killed(
    kafka: EmbeddedKafka, kept_topic: str
) -> None:
    servers = kafka.bootstrap_servers
    largest = secrets.token_bytes(23 << 20)
    producer = AIOKafkaProducer(bootstrap_servers=servers, acks="all", max_request_size=24 << 20)
    async with producer:
        for value in (b"one", b"two", largest):
            await producer.send_and_wait(kept_topic, value)

    await kafka.kill()
    await kafka.start()
    assert kafka.bootstrap_servers == servers
    await kafka.stop()
    await kafka.start()

    consumer = AIOKafkaConsumer(kept_topic, bootstrap_servers=servers, auto_offset_reset="earliest")
    async with consumer:
        values = [(await asyncio.wait_for(consumer.getone(), 20)).value for _ in range(3)]
    assert values == [b"one", b"two", largest]


async def test_postgres_keeps_what_it_committed_when_killed(
    postgres: EmbeddedPostgres, postgres_database: str
) -> None:
    async with await psycopg.AsyncConnection.connect(postgres_database) as connection:
        await connection.execute("CREATE TABLE kept (n int)")
        await connection.execute("INSERT INTO kept VALUES (1), (2)")
        await connection.commit()

        dsn = postgres.dsn
        await postgres.kill()
        await postgres.start()
    assert postgres.dsn == dsn
    assert await count_rows(postgres_database) == 2

    await postgres.stop()
    await postgres.start()
    assert await count_rows(postgres_database) == 2


async def test_postgres_is_durable_and_asks_for_its_password(postgres: EmbeddedPostgres) -> None:
    async with await psycopg.AsyncConnection.connect(postgres.dsn) as connection:
        for name in ("fsync", "synchronous_commit", "full_page_writes"):
            cursor = await connection.execute(f"SHOW {name}")
            assert await cursor.fetchone() == ("on",)
        cursor = await connection.execute("SHOW server_encoding")
        assert await cursor.fetchone() == ("UTF8",)
    with pytest.raises(psycopg.OperationalError, match="password"):
        await psycopg.AsyncConnection.connect(postgres.dsn, password="guess")


async def test_stop_is_bounded_while_clients_hold_on(postgres: EmbeddedPostgres) -> None:
    holding = await psycopg.AsyncConnection.connect(postgres.dsn)
    await holding.execute("SELECT 1")  # a transaction stays open
    started = time.monotonic()
    await postgres.stop()
    assert time.monotonic() - started < 10
    assert not postgres.running
    await holding.close()
    await postgres.start()


async def test_a_killed_starter_leaves_nothing_running(data_dir: DataDir) -> None:
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(data_dir.path)],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    )
    with starter:
        assert starter.stdout is not None
        pids = json.loads(await asyncio.to_thread(starter.stdout.readline))["pids"]
        running = read_running(data_dir.path)
        assert running is not None
        assert running.pid == starter.pid
        with pytest.raises(DataDirInUseError, match=f"in use by process {starter.pid}"):
            data_dir.open()
        starter.send_signal(signal.SIGKILL)
    assert read_running(data_dir.path) is None

    # At once, while the old servers are still stopping: waits for them instead of failing.
    with data_dir:
        postgres = EmbeddedPostgres(data_dir.postgres)
        async with postgres, EmbeddedKafka(data_dir.kafka) as kafka:
            assert all(gone(pid) for pid in pids)
            assert kafka.bootstrap_servers == running.kafka
            assert postgres.dsn == running.postgres
            new_pids = kafka.pid, postgres.pid
    await until_gone(*new_pids, timeout_s=0)


async def test_a_killed_guard_takes_its_server_along(postgres: EmbeddedPostgres) -> None:
    pid = postgres.pid
    assert postgres._process is not None
    os.kill(postgres._process.pid, signal.SIGKILL)
    if sys.platform == "linux":
        await until_gone(pid)
    assert not postgres.running
    await postgres.start()
    assert postgres.pid != pid


async def test_a_start_that_is_cancelled_leaves_nothing_running(data_dir: DataDir) -> None:
    with data_dir:
        kafka = EmbeddedKafka(data_dir.kafka)
        start = asyncio.create_task(kafka.start())
        while not kafka.running:
            await asyncio.sleep(0.02)
        pid = kafka.pid
        start.cancel()
        with pytest.raises(asyncio.CancelledError):
            await start
        await until_gone(pid, timeout_s=1)
        async with kafka:
            assert kafka.running


async def test_postgres_works_in_a_home_that_is_closed_to_its_account(closed_home: Path) -> None:
    data_dir = DataDir(closed_home / "data")
    try:
        with data_dir:
            postgres = EmbeddedPostgres(data_dir.postgres)
            async with postgres, await psycopg.AsyncConnection.connect(postgres.dsn) as connection:
                await connection.execute("CREATE TABLE kept (n int)")
            async with postgres:
                assert await count_rows(postgres.dsn) == 0
            place = postgres.data_path
            assert closed_home.stat().st_mode & 0o777 == 0o700
    finally:
        data_dir.remove()
    assert not place.exists()


async def test_a_server_that_dies_at_its_start_says_why(data_dir: DataDir) -> None:
    with data_dir:
        async with EmbeddedPostgres(data_dir.postgres) as postgres:
            pass
        control = postgres.data_path / "global" / "pg_control"
        control.unlink()
        with pytest.raises(ServerDiedError) as refusal:
            await postgres.start()
    assert "Postgres ended while it was starting" in str(refusal.value)
    assert str(postgres.log_path) in str(refusal.value)
    assert "pg_control" in str(refusal.value)
