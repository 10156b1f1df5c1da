"""What both stream-processing peers share: their topic, their table, and how they are timed.

Their topic holds the same acta as flat JSON, keyed by chronicum. Their table has the same columns,
the primary key that makes their writes idempotent, and the one index that windows with filters
need; ours has two more. They commit with ``synchronous_commit=on``: the log replays what a crash of
Postgres takes from our recorder, but they commit their offsets to Kafka, and what Postgres lost
after that would stay lost.
"""

from __future__ import annotations

import asyncio
import time
from typing import LiteralString

import psycopg
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from psycopg import sql
from tests.benchmarks.sample import Acta, flat_json
from tests.benchmarks.stage import Process, Stage

from chronica.infra.settings import Settings
from chronica.log import partition_of

__all__ = ["FIELDS", "fill_flat_topic", "make_table", "time_rows"]

FIELDS = (
    *("chronicum", "owner", "key", "kind", "actor_kind", "actor", "content", "call_id"),
    "metadata",
)
"""Names of the fields of ``flat_json``, all strings."""

PARTITIONS = 8
"""Of their topic: as many as ours has."""

_FIRST_ROW_WITHIN_S = 60.0
_ALL_ROWS_WITHIN_S = 120.0


async def fill_flat_topic(settings: Settings, topic: str, acta: Acta) -> None:
    """Make the peers' topic and append all acta to it, those of a chronicum in one partition."""
    admin = AIOKafkaAdminClient(**settings.kafka_client())
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
    finally:
        await admin.close()
    async with AIOKafkaProducer(
        **settings.kafka_client(), enable_idempotence=True, linger_ms=5
    ) as producer:
        for start in range(0, len(acta), 5_000):
            sent = [
                await producer.send(
                    topic,
                    flat_json(actum, key),
                    key=actum.chronicum_id.encode(),
                    partition=partition_of(actum.chronicum_id.encode(), PARTITIONS),
                )
                for actum, key in acta[start : start + 5_000]
            ]
            await asyncio.gather(*sent)


def make_table(dsn: str, table: str) -> None:
    """Make a peer's table, empty."""
    columns = ", ".join(f"{name} text NOT NULL" for name in FIELDS)
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(
            f"CREATE TABLE public.{table} ({columns}, place bigint NOT NULL, "
            "PRIMARY KEY (chronicum, key))"
        )
        conn.execute(f"CREATE INDEX ON public.{table} (chronicum, kind, actor_kind, place)")


def time_rows(stage: Stage, process: Process, dsn: str, table: str, acta: Acta) -> float:
    """Return rows per second from the first ones that are seen to the last one.

    What is there at the first look counts neither as rows nor as time, so the start of the peer is
    not held against it. Only single rows are asked for while it works: counting would cost it.

    Args:
        stage: where.
        process: the peer; that it ends is an error.
        dsn: database of the table.
        table: empty at the start.
        acta: what the topic holds.
    """
    stage.checkpoint()
    lasts = _last_of_each_partition(acta)
    with psycopg.connect(dsn, autocommit=True) as conn:

        def asked(question: LiteralString, *parameters: str) -> int:
            query = sql.SQL(question).format(sql.Identifier("public", table))
            row = conn.execute(query, parameters).fetchone()
            assert row is not None, "each question has one answer"
            return int(row[0])

        def all_there() -> bool:
            there = "SELECT EXISTS (SELECT FROM {} WHERE chronicum = %s AND key = %s)"
            return all(asked(there, *last) for last in lasts)

        process.until(
            lambda: bool(asked("SELECT EXISTS (SELECT FROM {})")), within_s=_FIRST_ROW_WITHIN_S
        )
        started_s = time.monotonic()
        first = asked("SELECT count(*) FROM {}")
        ended_s = process.until(all_there, within_s=_ALL_ROWS_WITHIN_S)
        rows = asked("SELECT count(*) FROM {}")
    if rows != len(acta):
        raise RuntimeError(f"{table} holds {rows} rows, not {len(acta)}.")
    if first == rows:
        raise RuntimeError(f"{table} was full at the first look: append more acta.")
    return (rows - first) / (ended_s - started_s)


def _last_of_each_partition(acta: Acta) -> list[tuple[str, str]]:
    """Return chronicum and key of the last actum of each partition: both peers keep their order."""
    lasts = {
        partition_of(actum.chronicum_id.encode(), PARTITIONS): (actum.chronicum_id, key)
        for actum, key in acta
    }
    return list(lasts.values())
