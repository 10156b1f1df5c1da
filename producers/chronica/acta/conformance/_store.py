"""The base contract: create, record, acta, get. No policy (the seed, section 06)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from chronica.acta._clock import utc_now
from chronica.acta._errors import ChronicumExistsError, ChronicumNotFoundError
from chronica.acta._models import ActorKind, ActumKind, Chronicum
from chronica.acta._ports import Store, WindowQuery
from chronica.acta.conformance._case import StoreCase, actum, contents, gathered, raises

__all__ = ["StoreConformance"]

_OWNER = "ardian"


class StoreConformance(StoreCase):
    """Tests of ``Store``."""

    async def test_a_store_has_the_four_methods(self) -> None:
        async with self.open_store() as store:
            assert isinstance(store, Store)

    async def test_a_created_chronicum_can_be_read(self) -> None:
        async with self.open_store() as store:
            chronicum_id = self.new_id()
            created = await _create(store, chronicum_id)
            assert created.id == chronicum_id
            assert created.owner_id == _OWNER
            assert created.last_seq == 0
            assert created.created_at.utcoffset() == timedelta(0)
            assert await store.get(chronicum_id) == created
            assert list(await store.acta(chronicum_id, WindowQuery())) == []

    async def test_an_id_can_be_created_once_by_whomever(self) -> None:
        async with self.open_store() as store:
            chronicum_id = self.new_id()
            await _create(store, chronicum_id)
            for owner in (_OWNER, "somebody else"):
                with raises(ChronicumExistsError):
                    await _create(store, chronicum_id, owner)
            assert (await store.get(chronicum_id)).owner_id == _OWNER

    async def test_of_forty_concurrent_creates_one_succeeds(self) -> None:
        async with self.open_store() as store:
            chronicum_id = self.new_id()
            created, refused = await gathered(
                (_create(store, chronicum_id, f"owner {i}") for i in range(40)),
                ChronicumExistsError,
            )
            assert len(created) == 1
            assert len(refused) == 39
            assert (await store.get(chronicum_id)).owner_id == created[0].owner_id

    async def test_a_missing_chronicum_is_not_found_by_any_method(self) -> None:
        async with self.open_store() as store:
            missing = self.new_id()
            with raises(ChronicumNotFoundError):
                await store.get(missing)
            with raises(ChronicumNotFoundError):
                await store.acta(missing, WindowQuery())
            with raises(ChronicumNotFoundError):
                await store.record(actum(missing))
            await self.assert_nothing_was_created(store, missing)

    async def test_a_recorded_actum_comes_back_as_it_was_stored(self) -> None:
        async with self.open_store() as store:
            chronicum_id = self.new_id()
            await _create(store, chronicum_id)
            sent = actum(
                chronicum_id,
                "find a table",
                kind=ActumKind.TOOL_REQUEST,
                actor_kind=ActorKind.AGENT,
                actor="search",
                call_id="call-1",
                metadata={"a": [1, {"b": None}]},
            )
            stored = await store.record(sent)
            assert stored == replace(sent, at=stored.at, seq=1)
            assert stored.at.utcoffset() == timedelta(0)
            assert list(await store.acta(chronicum_id, WindowQuery())) == [stored]

    async def test_a_thousand_acta_come_back_in_the_order_they_were_recorded(self) -> None:
        async with self.open_store() as store:
            chronicum_id = self.new_id()
            await _create(store, chronicum_id)
            for i in range(1000):
                await store.record(actum(chronicum_id, f"{i}"))
            acta = await store.acta(chronicum_id, WindowQuery())
            assert contents(acta) == [f"{i}" for i in range(1000)]
            assert [each.seq for each in acta] == list(range(1, 1001))

    async def test_forty_concurrent_appends_are_forty_acta_without_a_gap(self) -> None:
        async with self.open_store() as store:
            chronicum_id = self.new_id()
            await _create(store, chronicum_id)
            stored = await asyncio.gather(
                *(store.record(actum(chronicum_id, f"{i}")) for i in range(40))
            )
            acta = list(await store.acta(chronicum_id, WindowQuery()))
            assert [each.seq for each in acta] == list(range(1, 41))
            assert sorted(stored, key=lambda each: each.seq) == acta
            assert sorted(contents(acta), key=int) == [f"{i}" for i in range(40)]

    async def test_chronica_are_counted_apart(self) -> None:
        async with self.open_store() as store:
            ids = [self.new_id(), self.new_id()]
            for chronicum_id in ids:
                await _create(store, chronicum_id)
            for i in range(6):
                await store.record(actum(ids[i % 2], f"{i}"))
            for n, chronicum_id in enumerate(ids):
                acta = await store.acta(chronicum_id, WindowQuery())
                assert contents(acta) == [f"{i}" for i in range(n, 6, 2)]
                assert [each.seq for each in acta] == [1, 2, 3]

    async def test_the_time_a_caller_puts_in_is_not_the_order(self) -> None:
        async with self.open_store() as store:
            chronicum_id = self.new_id()
            await _create(store, chronicum_id)
            for year in (2900, 1971, 2800):
                at = datetime(year, 1, 1, tzinfo=UTC)
                stored = await store.record(actum(chronicum_id, f"{year}", at=at))
                assert stored.at != at
            acta = await store.acta(chronicum_id, WindowQuery())
            assert contents(acta) == ["2900", "1971", "2800"]

    async def test_the_chronicum_says_how_far_it_has_come(self) -> None:
        async with self.open_store() as store:
            chronicum_id = self.new_id()
            before = await _create(store, chronicum_id)
            for seq in (1, 2, 3):
                stored = await store.record(actum(chronicum_id))
                after = await store.get(chronicum_id)
                assert after.last_seq == seq
                assert after.created_at == before.created_at
                assert after.last_activity_at >= max(before.last_activity_at, stored.at)
                before = after

    async def test_the_store_itself_selects_the_window(self) -> None:
        async with self.open_store() as store:
            chronicum_id = self.new_id()
            await _create(store, chronicum_id)
            for i in range(10):
                kind = ActumKind.THOUGHT if i % 2 else ActumKind.MESSAGE
                await store.record(actum(chronicum_id, f"{i}", kind=kind))
            query = WindowQuery(kinds=[ActumKind.THOUGHT], last_n=3)
            assert contents(await store.acta(chronicum_id, query)) == ["5", "7", "9"]


async def _create(store: Store, chronicum_id: str, owner: str = _OWNER) -> Chronicum:
    now = utc_now()
    return await store.create(
        Chronicum(id=chronicum_id, owner_id=owner, created_at=now, last_activity_at=now)
    )
