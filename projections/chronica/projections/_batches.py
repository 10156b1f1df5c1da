"""One batch of the recorder: what it must know before, and all it writes, in one transaction.

Set-based: a batch of thousands is a handful of statements and one COPY.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg import AsyncConnection, AsyncCursor

from chronica.projections._errors import ClaimLostError, sorted_error
from chronica.projections._tables import (
    ActumRow,
    Batch,
    ClaimRow,
    DeadLetterRow,
    Found,
    HeadRow,
    KeptRow,
    OutcomeRow,
    Wanted,
)
from chronica.projections._text import copy_text, from_postgres, to_postgres

__all__ = ["CHANNEL", "look_up", "write_batch"]

CHANNEL = "chronica_recorded"
"""NOTIFY channel; the payload is ``generation topic partition next_offset``."""

Connection = AsyncConnection[Any]


async def look_up(conn: Connection, claim: ClaimRow, topic: str, wanted: Wanted) -> Found:
    """Return what there is of what a batch must know.

    Outside the batch's transaction: had anyone else written this partition since, the batch's
    compare-and-set would fail.

    Raises:
        PostgresUnavailableError: Postgres did not answer.
    """
    schema = f"chronica_g{claim.generation}"
    try:
        async with conn.pipeline():
            heads = await conn.execute(
                "SELECT number, digest, tenant, id, owner, "
                "(extract(epoch FROM created_at) * 1000)::bigint, "
                "(extract(epoch FROM last_activity_at) * 1000)::bigint, last_seq "
                f"FROM {schema}.chronica WHERE digest = ANY(%s::uuid[])",
                [list(wanted.heads)],
            )
            firsts = await conn.execute(
                f"SELECT dedupe, seq FROM {schema}.acta WHERE dedupe = ANY(%s::uuid[])",
                [list(wanted.dedupes)],
            )
            kept = await conn.execute(
                "SELECT kept, outcome::text, reason, current_seq, chronicum "
                f"FROM {schema}.outcomes WHERE kept = ANY(%s::uuid[])",
                [list(wanted.kept)],
            )
            verdicts = await conn.execute(
                'SELECT "offset", reason, detail FROM chronica.verdicts WHERE topic = %s '
                'AND partition = %s AND "offset" >= %s AND "offset" < %s',
                [topic, claim.partition, wanted.first_offset, wanted.end_offset],
            )
        return Found(
            {row[1]: _head(row) for row in await heads.fetchall()},
            {row[0]: row[1] for row in await firsts.fetchall()},
            {row[0]: KeptRow(*row[1:]) for row in await kept.fetchall()},
            {row[0]: (row[1], row[2]) for row in await verdicts.fetchall()},
        )
    except psycopg.Error as error:
        raise sorted_error(error) from error


def _head(row: Sequence[Any]) -> HeadRow:
    number, digest, tenant, chronicum, owner, created_at, last_activity_at, last_seq = row
    return HeadRow(
        number,
        digest,
        from_postgres(tenant),
        from_postgres(chronicum),
        from_postgres(owner),
        created_at,
        last_activity_at,
        last_seq,
    )


async def write_batch(
    conn: Connection, claim: ClaimRow, topic: str, expected_offset: int, batch: Batch
) -> None:
    """Write a batch and move the partition, or do nothing.

    Args:
        conn: the claim's connection, in autocommit mode.
        claim: the claim that the batch was decided under.
        topic: short name of the topic.
        expected_offset: the ``next_offset`` that the batch was decided at.
        batch: what to write.

    Raises:
        ClaimLostError: another has claimed or moved the partition; nothing was written.
        DataRefusedError: Postgres refused a row; nothing was written.
        PostgresUnavailableError: it may or may not have been written; claim anew to see.
    """
    try:
        async with conn.transaction(), conn.cursor() as cursor:
            await _move(cursor, claim, topic, expected_offset, batch)
            schema = f"chronica_g{claim.generation}"
            if batch.heads:
                await _write_heads(cursor, schema, batch.heads)
            if batch.acta:
                await _copy_acta(cursor, schema, claim.partition, batch.acta)
            if batch.outcomes:
                await _write_outcomes(cursor, schema, topic, claim.partition, batch.outcomes)
            if batch.dead_letters:
                await _write_dead(cursor, schema, topic, claim.partition, batch.dead_letters)
    except psycopg.Error as error:
        raise sorted_error(error) from error


async def _move(
    cursor: AsyncCursor[Any], claim: ClaimRow, topic: str, expected_offset: int, batch: Batch
) -> None:
    """Compare and set first: a recorder that was fenced off must not even try its rows."""
    await cursor.execute(
        f"UPDATE chronica_g{claim.generation}.claims SET next_offset = %s, last_offset = %s, "
        "last_timestamp_ms = %s, last_checksum = %s "
        "WHERE topic = %s AND partition = %s AND epoch = %s AND next_offset = %s "
        "RETURNING pg_notify(%s, %s)",
        [
            batch.next_offset,
            batch.last_offset,
            batch.last_timestamp_ms,
            batch.last_checksum,
            topic,
            claim.partition,
            claim.epoch,
            expected_offset,
            CHANNEL,
            f"{claim.generation} {topic} {claim.partition} {batch.next_offset}",
        ],
    )
    if cursor.rowcount != 1:
        raise ClaimLostError(
            f"Partition {claim.partition} of {topic} was claimed or moved by another recorder."
        )


async def _write_heads(cursor: AsyncCursor[Any], schema: str, heads: list[HeadRow]) -> None:
    columns = [list(column) for column in zip(*heads, strict=True)]
    numbers, digests, tenants, ids, owners, created, active, seqs = columns
    texts = [[to_postgres(text) for text in column] for column in (tenants, ids, owners)]
    await cursor.execute(
        f"INSERT INTO {schema}.chronica AS c "
        "(number, digest, tenant, id, owner, created_at, last_activity_at, last_seq) "
        "SELECT number, digest, tenant, id, owner, "
        "to_timestamp(created / 1000.0), to_timestamp(active / 1000.0), last_seq "
        "FROM unnest(%s::bigint[], %s::uuid[], %s::text[], %s::text[], %s::text[], %s::bigint[], "
        "%s::bigint[], %s::bigint[]) "
        "AS h (number, digest, tenant, id, owner, created, active, last_seq) "
        "ON CONFLICT (number) DO UPDATE SET last_seq = excluded.last_seq, "
        "last_activity_at = excluded.last_activity_at",
        [numbers, digests, *texts, created, active, seqs],
    )


async def _copy_acta(
    cursor: AsyncCursor[Any], schema: str, partition: int, acta: list[ActumRow]
) -> None:
    text = copy_text
    stamps: dict[int, str] = {}  # a Kafka batch has one timestamp, so there are few
    lines: list[str] = []
    for a in acta:
        at = stamps.get(a.at_ms)
        if at is None:
            at = stamps[a.at_ms] = _timestamp(a.at_ms)
        lines.append(
            f"{a.chronicum}\t{a.seq}\t{a.offset}\t{at}\t{a.dedupe}\t{partition}\t{len(a.content)}"
            f"\t{a.kind}\t{a.actor_kind}\t{text(a.id)}\t{text(a.actor)}\t{text(a.call_id)}"
            f"\t{text(a.key)}\t{text(a.metadata)}\t{text(a.content)}\n"
        )
    async with cursor.copy(
        f'COPY {schema}.acta (chronicum, seq, "offset", at, dedupe, partition, chars, kind, '
        "actor_kind, id, actor, call_id, key, metadata, content) FROM STDIN"
    ) as copy:
        await copy.write("".join(lines))


def _timestamp(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S") + (
        f".{at_ms % 1000:03d}+00"
    )


async def _write_outcomes(
    cursor: AsyncCursor[Any], schema: str, topic: str, partition: int, rows: list[OutcomeRow]
) -> None:
    columns = [list(column) for column in zip(*rows, strict=True)]
    await cursor.execute(
        f'INSERT INTO {schema}.outcomes (topic, partition, "offset", outcome, reason, '
        "current_seq, chronicum, seq, kept) "
        "SELECT %s, %s, o.* FROM unnest(%s::bigint[], %s::chronica.outcome[], %s::text[], "
        "%s::bigint[], %s::bigint[], %s::bigint[], %s::uuid[]) AS o",
        [topic, partition, *columns],
    )


async def _write_dead(
    cursor: AsyncCursor[Any], schema: str, topic: str, partition: int, rows: list[DeadLetterRow]
) -> None:
    await cursor.executemany(
        f'INSERT INTO {schema}.dead_letters (topic, partition, "offset", timestamp_ms, reason, '
        "detail, key, value, headers) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
        [
            [
                topic,
                partition,
                row.offset,
                row.timestamp_ms,
                row.reason,
                to_postgres(row.detail),
                row.key,
                row.value,
                _headers(row.headers),
            ]
            for row in rows
        ],
    )


def _headers(headers: tuple[tuple[str, bytes | None], ...]) -> str:
    return json.dumps(
        [[name, None if value is None else b64encode(value).decode()] for name, value in headers]
    )
