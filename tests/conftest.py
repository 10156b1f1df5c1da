"""Fixtures for all tests: one Kafka and one Postgres per run, a database and topics per test."""

from __future__ import annotations

import asyncio
import re
import secrets
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from chronica.infra.embedded import DataDir, EmbeddedKafka, EmbeddedPostgres
from chronica.infra.settings import Settings


def run_apart(work: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Run a coroutine in a thread of its own, so that no test's event loop is touched."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: asyncio.run(work())).result()


@dataclass(frozen=True)
class Stack:
    """The servers of this test run."""

    kafka: EmbeddedKafka
    postgres: EmbeddedPostgres


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """Start both servers at once, in a data directory that is deleted at the end."""
    # Not under pytest's own directory: that is closed to the account Postgres runs as.
    data_dir = DataDir(Path(tempfile.mkdtemp(prefix="chronica-test-")))
    with data_dir:
        stack = Stack(EmbeddedKafka(data_dir.kafka), EmbeddedPostgres(data_dir.postgres))

        async def start() -> None:
            await asyncio.gather(stack.kafka.start(), stack.postgres.start())

        async def stop() -> None:
            await asyncio.gather(stack.kafka.stop(), stack.postgres.stop())

        try:
            run_apart(start)
            yield stack
        finally:
            run_apart(stop)
            data_dir.remove()


@pytest.fixture(scope="session")
def kafka(stack: Stack) -> EmbeddedKafka:
    """The Kafka of this test run; a test that kills it starts it again."""
    return stack.kafka


@pytest.fixture(scope="session")
def postgres(stack: Stack) -> EmbeddedPostgres:
    """The Postgres of this test run; a test that kills it starts it again."""
    return stack.postgres


@pytest.fixture
def postgres_database(postgres: EmbeddedPostgres) -> Iterator[str]:
    """Connection string of an empty database that is dropped after the test."""
    name = f"test_{secrets.token_hex(6)}"
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    parts = conninfo_to_dict(postgres.dsn)
    yield (
        f"postgresql://{parts['user']}:{parts['password']}@{parts['host']}:{parts['port']}/{name}"
    )
    with psycopg.connect(make_conninfo(postgres.dsn), autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def topic_prefix(request: pytest.FixtureRequest) -> str:
    """A prefix of topic names that no other test has."""
    readable = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name)[:40].strip("-")
    return f"t-{readable}-{secrets.token_hex(4)}"


@pytest.fixture
def settings(
    kafka: EmbeddedKafka, postgres_database: str, topic_prefix: str, tmp_path: Path
) -> Settings:
    """Settings of a stack of this test's own on the servers of this run."""
    return Settings(
        kafka_bootstrap_servers=kafka.bootstrap_servers,
        postgres_dsn=postgres_database,
        topic_prefix=topic_prefix,
        data_dir=tmp_path,
    )
