"""Claims: who may record a partition, and how far it is (rules 3.4 and 3.10)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection

from chronica.projections._errors import SchemaRefusedError
from chronica.projections._tables import ClaimRow

__all__ = [
    "Sharing",
    "claim_partition",
    "durable",
    "end_hung_sessions",
    "enter_membership",
    "live_generation",
    "pin_topic",
    "pin_verdict",
    "sharing",
]

# Advisory locks are per database and a database belongs to one log: two fixed classes are enough.
# The generation is added, so that a rebuild's claims are not those of the one that serves.
_PARTITION_LOCKS = 0x4348_0000
_MEMBER_LOCKS = 0x4349_0000

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class Sharing:
    """Who records now, as Postgres' locks show it: a recorder is there as long as its session.

    Attributes:
        members: the numbers of the live recorders, in order.
        held: the partitions that one of them holds.
    """

    members: tuple[int, ...]
    held: frozenset[int]


@asynccontextmanager
async def durable(conn: Connection) -> AsyncIterator[None]:
    """Commit what is done within so that a Postgres crash can't take it back."""
    async with conn.transaction():
        await conn.execute("SET LOCAL synchronous_commit = on")
        yield


async def live_generation(conn: Connection) -> int:
    """Return the generation that serves."""
    row = await (await conn.execute("SELECT generation FROM chronica.live")).fetchone()
    assert row is not None, "chronica.live has one row, made by the first migration"
    return int(row[0])


async def pin_topic(conn: Connection, topic: str, topic_id: str, partitions: int) -> None:
    """Pin the topic's identity and partition count at the first start; check them at every other.

    Raises:
        SchemaRefusedError: the database belongs to another log, or the partition count changed.
    """
    generation = await live_generation(conn)
    async with durable(conn):
        await conn.execute(
            "INSERT INTO chronica.topics (topic, topic_id, partitions) VALUES (%s, %s, %s) "
            "ON CONFLICT (topic) DO NOTHING",
            [topic, topic_id, partitions],
        )
        cursor = await conn.execute(
            "SELECT topic_id, partitions FROM chronica.topics WHERE topic = %s", [topic]
        )
        row = await cursor.fetchone()
        assert row is not None, "inserted above or there before"
        pinned_id, pinned_partitions = row
        if pinned_id != topic_id:
            raise SchemaRefusedError(
                f"This database was made from another log: its topic {topic} was recreated (id "
                f"{pinned_id}, now {topic_id}). Nothing was started. Restore the topic, or give "
                "the new log a database of its own."
            )
        if pinned_partitions != partitions:
            raise SchemaRefusedError(
                f"The topic {topic} has {partitions} partitions, but {pinned_partitions} were "
                "pinned at the first start: the keys of a changed topic go to other partitions. "
                "Nothing was started. Move to a new log with the wanted count instead."
            )
        await conn.execute(
            f"INSERT INTO chronica_g{generation}.claims (topic, partition) "
            "SELECT %s, generate_series(0, %s - 1) ON CONFLICT DO NOTHING",
            [topic, partitions],
        )


async def enter_membership(conn: Connection, generation: int, number: int) -> None:
    """Make this recorder visible to the others for as long as the connection lives."""
    locks = _MEMBER_LOCKS + generation
    await conn.execute("SELECT pg_advisory_lock_shared(%s, %s)", [locks, number])


async def end_hung_sessions(conn: Connection, generation: int, *, after_s: float) -> int:
    """End the sessions of recorders that hang, and so free what they hold; return how many.

    A session that only waits for its client is one whose client lives and works within
    milliseconds, or hangs. Postgres' own timeouts don't end them all: one that waits for more of a
    COPY, or to send an answer, is neither idle nor can its statement be timed out.

    Args:
        conn: of a recorder that lives.
        generation: of the claims.
        after_s: how long a session may wait for its client.
    """
    cursor = await conn.execute(
        "SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a "
        "WHERE a.pid <> pg_backend_pid() AND a.datname = current_database() "
        "AND a.wait_event_type = 'Client' AND a.state_change < now() - make_interval(secs => %s) "
        "AND EXISTS (SELECT 1 FROM pg_locks l WHERE l.pid = a.pid AND l.granted "
        "AND l.locktype = 'advisory' AND l.classid IN (%s, %s))",
        [after_s, _MEMBER_LOCKS + generation, _PARTITION_LOCKS + generation],
    )
    return len(await cursor.fetchall())


async def sharing(conn: Connection, generation: int) -> Sharing:
    """Return who records now, by the locks of the sessions that live."""
    cursor = await conn.execute(
        "SELECT classid::bigint, objid::bigint FROM pg_locks "
        "WHERE locktype = 'advisory' AND granted AND classid IN (%s, %s) AND database = "
        "(SELECT oid FROM pg_database WHERE datname = current_database())",
        [_MEMBER_LOCKS + generation, _PARTITION_LOCKS + generation],
    )
    rows = await cursor.fetchall()
    numbers = {objid for classid, objid in rows if classid == _MEMBER_LOCKS + generation}
    held = {objid for classid, objid in rows if classid == _PARTITION_LOCKS + generation}
    return Sharing(tuple(sorted(numbers)), frozenset(held))


async def claim_partition(conn: Connection, topic: str, partition: int) -> ClaimRow | None:
    """Claim a partition for the session of this connection, or return None if another holds it.

    The advisory lock keeps two live recorders from fighting; the raised epoch is what fences: a
    batch of whoever held the partition before is refused from here on.

    Args:
        conn: the claim's own connection, in autocommit mode: the lock goes with it.
        topic: short name of the topic.
        partition: which one.
    """
    generation = await live_generation(conn)
    locks = _PARTITION_LOCKS + generation
    cursor = await conn.execute("SELECT pg_try_advisory_lock(%s, %s)", [locks, partition])
    row = await cursor.fetchone()
    assert row is not None, "a SELECT of an expression has one row"
    if not row[0]:
        return None
    async with durable(conn):
        cursor = await conn.execute(
            f"UPDATE chronica_g{generation}.claims SET epoch = epoch + 1 "
            "WHERE topic = %s AND partition = %s "
            "RETURNING epoch, next_offset, last_offset, last_timestamp_ms, last_checksum",
            [topic, partition],
        )
        row = await cursor.fetchone()
    assert row is not None, "pin_topic made a row for each partition"
    return ClaimRow(generation, partition, row[0], row[1], row[2], row[3], bytes(row[4]))


async def pin_verdict(
    conn: Connection, topic: str, partition: int, offset: int, reason: str, detail: str
) -> None:
    """Pin the answer of a record that Postgres refuses, before the batch that uses it."""
    async with durable(conn):
        await conn.execute(
            'INSERT INTO chronica.verdicts (topic, partition, "offset", reason, detail) '
            "VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
            [topic, partition, offset, reason, detail],
        )
