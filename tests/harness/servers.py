"""Servers of a module's own, which it may stop and kill without disturbing any other test."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.harness.running import LoopThread

from chronica.infra.embedded import DataDir, EmbeddedKafka, EmbeddedPostgres

__all__ = ["own_servers"]


@contextmanager
def own_servers() -> Iterator[tuple[EmbeddedKafka, EmbeddedPostgres]]:
    """Run a Kafka and a Postgres until the block ends, in a data directory that is then deleted."""
    data_dir = DataDir(Path(tempfile.mkdtemp(prefix="chronica-test-")))
    with data_dir:
        kafka, postgres = EmbeddedKafka(data_dir.kafka), EmbeddedPostgres(data_dir.postgres)

        async def start() -> None:
            await asyncio.gather(kafka.start(), postgres.start())

        async def stop() -> None:
            await asyncio.gather(kafka.stop(), postgres.stop())

        try:
            with LoopThread() as thread:
                thread.run(start(), within_s=120)
                yield kafka, postgres
                thread.run(stop())
        finally:
            data_dir.remove()
