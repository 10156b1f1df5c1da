"""How fast a full log becomes rows, and how fast a bare COPY writes the same rows."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import psycopg
from tests.benchmarks.sample import OWNER, Acta
from tests.benchmarks.stage import Process, Stage, recorder_command
from tests.harness.running import dsn_of

from chronica.infra.settings import Settings
from chronica.log import LogWriter
from chronica.projections import CHANNEL

__all__ = ["COPY_ROWS", "append_all", "copy_rate", "drain_rate"]

COPY_ROWS = 4_000
"""Rows of one COPY and transaction: as many as the recorder's batches have at most."""

_HOLDS = re.compile(r"recorder holds partitions=(\S+)")
_DRAIN_WITHIN_S = 120.0


async def append_all(settings: Settings, acta: Acta) -> None:
    """Append acta to the log, each with its key."""
    async with LogWriter(
        settings.kafka_client(), topic=settings.acta_topic, tenant="local", deadline_s=60.0
    ) as writer:
        for answer in await writer.append_many(OWNER, acta):
            if isinstance(answer, Exception):
                raise answer


def drain_rate(
    stage: Stage,
    settings: Settings,
    acta: Acta,
    *,
    recorders: int = 1,
    without: Sequence[str] = (),
) -> float:
    """Return acta per second from a full log to rows, by recorders that had all their claims.

    They are started on the empty log and frozen once they share its partitions; then the log is
    filled, and what is timed is from their thaw to the last row. So neither the start of a process
    nor the handing over of partitions is in it.

    Args:
        stage: where.
        settings: of an empty log.
        acta: what to record.
        recorders: how many processes.
        without: parts of its safety to be left out, as ``unsafe_recorder`` names them.
    """
    command = recorder_command()
    if without:
        command = [sys.executable, "-m", "tests.benchmarks.unsafe_recorder", *without]
    with ExitStack() as stack:
        processes = [
            stack.enter_context(stage.process("recorder", command, settings=settings))
            for _ in range(recorders)
        ]
        for process in processes:
            process.until(
                lambda process=process: held(process) == settings.partitions // recorders,  # type: ignore[misc]
                within_s=30,
            )
        for process in processes:
            process.send(signal.SIGSTOP)
        asyncio.run(append_all(settings, acta))
        stage.checkpoint()
        with psycopg.connect(dsn_of(settings), autocommit=True) as conn:
            conn.execute(f"LISTEN {CHANNEL}")
            started_s = time.monotonic()
            for process in processes:
                process.send(signal.SIGCONT)
            _listen(conn, processes, len(acta))
            took_s = time.monotonic() - started_s
            _check(conn, len(acta))
    return len(acta) / took_s


def _listen(
    conn: psycopg.Connection[tuple[int]], processes: Sequence[Process], records: int
) -> None:
    """Wait until so many records are recorded, as the recorders' notifications tell."""
    offsets: dict[str, int] = {}
    deadline = time.monotonic() + _DRAIN_WITHIN_S
    while sum(offsets.values()) < records:
        for told in conn.notifies(timeout=1.0, stop_after=1):
            _generation, _topic, partition, next_offset = told.payload.split()
            offsets[partition] = int(next_offset)
        for process in processes:
            process.check()
        if time.monotonic() > deadline:
            raise RuntimeError(f"{offsets} is all that was recorded in {_DRAIN_WITHIN_S:.0f} s.")


def _check(conn: psycopg.Connection[tuple[int]], records: int) -> None:
    row = conn.execute("SELECT count(*) FROM chronica_g1.acta").fetchone()
    if row is None or row[0] != records:
        raise RuntimeError(f"{row} acta were recorded, not {records}.")


def held(process: Process) -> int:
    """Return how many partitions a recorder says it holds."""
    told = _HOLDS.findall(process.output())
    return 0 if not told or told[-1] == "none" else told[-1].count(",") + 1


def copy_rate(stage: Stage, settings: Settings, connections: int) -> float:
    """Return rows per second of a bare COPY of all recorded acta into the same table, emptied.

    The bytes are ready in memory; table, indexes, order, rows per transaction and commit mode are
    the recorder's.

    Args:
        stage: where.
        settings: of a log that was recorded; its rows are written anew.
        connections: how many copy at once, each its own partitions.
    """
    dsn = dsn_of(settings)
    batches = _batches(dsn)
    shares = [batches[n::connections] for n in range(connections)]
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("TRUNCATE chronica_g1.acta")
    stage.checkpoint()
    rows = sum(len(batch) for partition in batches for batch in partition)
    with ExitStack() as stack:
        open_connections = [
            stack.enter_context(
                psycopg.connect(dsn, autocommit=True, options="-c synchronous_commit=off")
            )
            for _ in shares
        ]
        with ThreadPoolExecutor(connections) as pool:
            started_s = time.monotonic()
            list(pool.map(_copy, open_connections, shares))
            took_s = time.monotonic() - started_s
    return rows / took_s


def _batches(dsn: str) -> list[list[list[bytes]]]:
    """Return the rows as COPY has them, by partition, in the recorder's order and batches."""
    partitions: dict[int, list[bytes]] = defaultdict(list)
    with psycopg.connect(dsn) as conn:
        numbers = [
            row[0]
            for row in conn.execute("SELECT DISTINCT partition FROM chronica_g1.acta ORDER BY 1")
        ]
        for number in numbers:
            with conn.cursor().copy(
                "COPY (SELECT * FROM chronica_g1.acta WHERE partition = %s "
                'ORDER BY "offset") TO STDOUT',
                [number],
            ) as copy:
                partitions[number] = [bytes(line) for line in copy]
    return [
        [lines[start : start + COPY_ROWS] for start in range(0, len(lines), COPY_ROWS)]
        for lines in partitions.values()
    ]


def _copy(conn: psycopg.Connection[tuple[object]], share: list[list[list[bytes]]]) -> None:
    for partition in share:
        for batch in partition:
            with conn.cursor().copy("COPY chronica_g1.acta FROM STDIN") as copy:
                copy.write(b"".join(batch))
