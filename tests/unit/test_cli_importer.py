"""Importing: in order, bounded, counted by what was decided."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from chronica.acta import (
    Actum,
    ActumKind,
    Decision,
    InternalError,
    MemoryStore,
    NotAppendedError,
    WindowQuery,
)
from chronica.infra.cli._importer import Importer, Summary


def line(conversation: str, index: int, content: str = "x") -> bytes:
    message = {"conversation": conversation, "index": index, "role": "user", "content": content}
    return json.dumps(message).encode() + b"\n"


async def each(lines: list[bytes]) -> AsyncIterator[bytes]:
    for one in lines:
        yield one


class Decider:
    """A deciding store that keeps the order in which acta came, and takes its time."""

    def __init__(self) -> None:
        self.came: list[Actum] = []
        self.under_way = 0
        self.under_way_max = 0
        self.trouble_at: int | None = None
        self.trouble: Exception = NotAppendedError("Kafka is away.")

    async def submit(
        self, owner: str, actum: Actum, *, key: str | None, expected_seq: int | None
    ) -> Decision:
        self.came.append(actum)
        self.under_way += 1
        self.under_way_max = max(self.under_way_max, self.under_way)
        number = len(self.came)
        try:
            await asyncio.sleep(0.001 if number % 3 else 0.003)
            if number == self.trouble_at:
                raise self.trouble
        finally:
            self.under_way -= 1
        return Decision(replace(actum, seq=number), duplicate=False)


async def imported(store: MemoryStore | Decider, lines: list[bytes], owner: str = "me") -> Summary:
    importer = Importer(store, owner)
    await importer.run(each(lines), lambda: None)
    return importer.summary


async def test_a_second_import_of_the_same_file_records_nothing() -> None:
    store = MemoryStore()
    lines = [line("a", 0), line("b", 0), line("a", 1)]
    first = await imported(store, lines)
    again = await imported(store, lines)
    assert (first.recorded.total(), first.duplicate, len(first.chronica)) == (3, 0, 2)
    assert (again.recorded.total(), again.duplicate) == (0, 3)
    assert [actum.seq for actum in await store.acta("a", WindowQuery())] == [1, 2]


async def test_a_foreign_chronicum_is_refused_and_the_others_go_on() -> None:
    store = MemoryStore()
    await imported(store, [line("a", 0)], owner="somebody")
    summary = await imported(store, [line("a", 1), line("b", 0)])
    assert (summary.recorded.total(), summary.refused) == (1, 1)
    assert summary.refusals == ["Line 1: Chronicum 'a' was not found."], "as anywhere"


async def test_a_bad_line_is_counted_and_named_and_the_rest_goes_on() -> None:
    lines = [line("a", 0), b"{\n", b"\n", b'{"conversation":"a"}\n', line("a", 1)]
    summary = await imported(MemoryStore(), lines)
    assert (summary.recorded[ActumKind.MESSAGE], summary.refused) == (2, 2)
    assert [refusal.split(":")[0] for refusal in summary.refusals] == ["Line 2", "Line 4"]


async def test_many_are_under_way_together_in_the_order_of_the_file() -> None:
    store = Decider()
    lines = [line(f"c{n % 7}", n, str(n)) for n in range(2500)]
    summary = await imported(store, lines)
    assert summary.recorded.total() == 2500
    assert [actum.content for actum in store.came] == [str(n) for n in range(2500)]
    assert 100 < store.under_way_max <= 1000


async def test_large_contents_are_fewer_at_a_time() -> None:
    store = Decider()
    await imported(store, [line("a", n, "x" * 10_000_000) for n in range(12)])
    assert store.under_way_max <= 7


async def test_when_the_log_is_away_nothing_overtakes_what_was_not_appended() -> None:
    store = Decider()
    store.trouble_at = 2
    importer = Importer(store, "me")
    with pytest.raises(NotAppendedError):
        await importer.run(each([line("a", n, "x" * 30_000_000) for n in range(9)]), lambda: None)
    assert len(store.came) <= 3, "the ones under way together, and none after"
    assert store.under_way == 0


async def test_an_actum_that_cannot_be_stored_is_refused_alone() -> None:
    store = Decider()
    store.trouble_at, store.trouble = 1, InternalError("It is kept as a dead letter.")
    summary = await imported(store, [line("a", 0), line("a", 1)])
    assert (summary.recorded.total(), summary.refused) == (1, 1)


async def test_only_the_first_refusals_are_kept() -> None:
    summary = await imported(MemoryStore(), [b"{\n"] * 100)
    assert summary.refused == 100
    assert len(summary.refusals) == 20


async def test_messages_that_make_no_actum_are_counted() -> None:
    summary = await imported(MemoryStore(), [line("a", 0, ""), b"\n", line("a", 1)])
    assert (summary.recorded.total(), summary.refused, summary.empty) == (1, 0, 1)


async def test_lines_without_an_index_are_the_same_ones_at_the_next_import() -> None:
    store = MemoryStore()
    lines = [json.dumps({"conversation": "a", "role": "user", "content": "x"}).encode()] * 3
    assert (await imported(store, lines)).recorded.total() == 3
    again = await imported(store, [*lines, lines[0]])
    assert (again.recorded.total(), again.duplicate) == (1, 3)
