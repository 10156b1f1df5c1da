"""What the memory store promises beyond the contract: its clock, and refusals without a trace."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from chronica.acta import (
    ActorKind,
    Actum,
    ActumKind,
    Chronicarius,
    ChronicumNotFoundError,
    MemoryStore,
    SequenceConflictError,
)

MESSAGE = Actum(
    chronicum_id="dinner",
    kind=ActumKind.MESSAGE,
    actor_kind=ActorKind.HUMAN,
    actor="ardian",
    content="hello",
)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


async def test_the_clock_going_back_changes_neither_order_nor_last_activity() -> None:
    times = iter([NOON, NOON - timedelta(hours=1), NOON - timedelta(hours=2)])
    c = Chronicarius(MemoryStore(clock=lambda: next(times)))
    stored = [await c.record_actum("ardian", replace(MESSAGE, content=f"{i}")) for i in range(3)]
    assert [each.at.hour for each in stored] == [12, 11, 10]
    assert await c.get_acta("ardian", "dinner") == stored
    chronicum = await c.get_chronicum("ardian", "dinner")
    assert chronicum.created_at == chronicum.last_activity_at == NOON


async def test_the_memory_store_creates_nothing_for_what_it_cannot_keep() -> None:
    store = MemoryStore()
    bad = replace(MESSAGE, metadata={"a": object()})
    with pytest.raises(TypeError):
        await store.submit("ardian", bad, key="key", expected_seq=None)
    with pytest.raises(SequenceConflictError):
        await store.submit("ardian", MESSAGE, key="key", expected_seq=1)
    with pytest.raises(ChronicumNotFoundError):
        await store.get("dinner")
