"""Partitions don't wait for each other, and a recorder stops in time whatever Postgres does."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from tests.harness.running import dsn_of, recorded

from chronica.acta import ActorKind, Actum, ActumKind, Chronicarius
from chronica.infra.settings import Settings
from chronica.log import ensure_topic, partition_key, partition_of
from chronica.projections import claim_partition, hang_up, migrate, pin_topic
from chronica.projections import connect as connect_to_postgres
from chronica.recorder import Recorder
from chronica.recorder import _shell as shell
from chronica.store import connect


def chronicum_of(partition: int, partitions: int) -> str:
    """A chronicum whose records go to a partition."""
    return next(
        name
        for name in (f"c{n}" for n in range(10_000))
        if partition_of(partition_key("local", name), partitions) == partition
    )


def message(chronicum: str) -> Actum:
    return Actum(
        chronicum_id=chronicum,
        kind=ActumKind.MESSAGE,
        actor_kind=ActorKind.HUMAN,
        actor="ardian",
        content="hello",
    )


@contextmanager
def locked_claim(dsn: str, partition: int) -> Iterator[None]:
    """Let every batch of one partition wait for Postgres."""
    with psycopg.connect(dsn) as conn:
        conn.execute(
            "SELECT 1 FROM chronica_g1.claims WHERE partition = %s FOR UPDATE", [partition]
        )
        yield
        conn.rollback()


async def test_while_one_partition_waits_for_postgres_the_others_are_recorded(
    settings: Settings,
) -> None:
    stuck, free = chronicum_of(0, settings.partitions), chronicum_of(1, settings.partitions)
    with recorded(settings):
        async with connect(settings=settings, decision_wait_s=1.0) as store:
            chronicarius = Chronicarius(store)
            with locked_claim(dsn_of(settings), 0):
                with pytest.raises(Exception, match="will be decided"):
                    await chronicarius.record_actum("o", message(stuck), idempotency_key="k")
                for _ in range(5):
                    await chronicarius.record_actum("o", message(free))
        async with connect(settings=settings) as store:
            stored = await Chronicarius(store).record_actum(
                "o", message(stuck), idempotency_key="k"
            )
            assert stored.seq == 1, "what waited was recorded once it could be"


@contextmanager
def frozen_backends(dsn: str) -> Iterator[int]:
    """Freeze the Postgres processes behind every claim: they neither answer nor take a cancel."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        pids = [
            row[0]
            for row in conn.execute(
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
                "AND application_name = 'chronica recorder'"
            )
        ]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield len(pids)
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)


async def test_a_recorder_stops_within_five_seconds_while_postgres_hangs(
    settings: Settings,
) -> None:
    chronicum = chronicum_of(0, settings.partitions)
    with recorded(settings) as running:
        async with connect(settings=settings, decision_wait_s=0.5) as store:
            with frozen_backends(dsn_of(settings)) as frozen:
                assert frozen == settings.partitions
                with pytest.raises(Exception, match="will be decided"):
                    await Chronicarius(store).record_actum("o", message(chronicum))
                began = time.monotonic()
                running.stop()
                assert time.monotonic() - began < 5.0


@pytest.mark.parametrize("hangs_in", ["idle", "transaction", "COPY"])
async def test_a_recorder_that_hangs_is_taken_over_from_whatever_it_was_doing(
    settings: Settings, hangs_in: str
) -> None:
    dsn = dsn_of(settings)
    facts = await ensure_topic(settings.kafka_client(), settings.acta_topic, settings.partitions)
    await asyncio.to_thread(migrate, dsn)
    hung = await connect_to_postgres(dsn, name="hung")
    await pin_topic(hung, "acta", facts.topic_id, facts.partitions)
    assert await claim_partition(hung, "acta", 0) is not None
    if hangs_in != "idle":
        await hung.execute("BEGIN")
    if hangs_in == "COPY":
        # It asks for data and gets none: no timeout of Postgres ends this.
        hung.pgconn.send_query(b"COPY chronica_g1.acta FROM STDIN")
        hung.pgconn.flush()
    recorder = Recorder(settings, hung_after_s=1.0)
    running = asyncio.create_task(recorder.run())
    try:
        async with asyncio.timeout(20):
            while recorder.partitions.get(0, -1) < 0:
                assert not running.done()
                await asyncio.sleep(0.05)
    finally:
        recorder.stop()
        await running
        hang_up(hung)


async def test_a_step_that_fails_unforeseen_is_tried_again_and_ends_nothing(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, failures = vars(shell)["look_up"], [RuntimeError("unforeseen"), AssertionError("ours")]

    async def look_up(*args: Any) -> Any:
        if failures:
            raise failures.pop()
        return await real(*args)

    monkeypatch.setattr(shell, "look_up", look_up)
    with recorded(settings):
        async with connect(settings=settings) as store:
            stored = await Chronicarius(store).record_actum("o", message("c"))
    assert stored.seq == 1
    assert not failures
