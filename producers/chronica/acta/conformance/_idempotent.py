"""Deduplication: the first one wins, for ever (the seed, section 05; rule 3.5)."""

from __future__ import annotations

import asyncio

from chronica.acta._clock import utc_now
from chronica.acta._errors import ChronicumNotFoundError
from chronica.acta._models import Chronicum
from chronica.acta._ports import IdempotentStore, Store, WindowQuery
from chronica.acta.conformance._case import actum, contents, raises
from chronica.acta.conformance._hostile import HOSTILE_TEXTS, LOOKALIKES
from chronica.acta.conformance._keys import KeyCases

__all__ = ["IdempotentStoreConformance"]


class IdempotentStoreConformance(KeyCases):
    """Tests of ``IdempotentStore``, and of keys through Chronicarius."""

    async def test_an_idempotent_store_is_recognised(self) -> None:
        async with self.open_store() as store:
            assert isinstance(store, IdempotentStore)

    async def test_record_idempotent_needs_a_chronicum(self) -> None:
        async with self.open_store() as store:
            missing = self.new_id()
            with raises(ChronicumNotFoundError):
                await store.record_idempotent(actum(missing), "key")
            await self.assert_nothing_was_created(store, missing)

    async def test_record_idempotent_returns_the_first_actum_unchanged(self) -> None:
        async with self.open_store() as store:
            chronicum_id = await _created(store, self.new_id())
            first = await store.record_idempotent(actum(chronicum_id, "first"), "key")
            await store.record(actum(chronicum_id, "between"))
            again = await store.record_idempotent(actum(chronicum_id, "second"), "key")
            assert again == first
            acta = await store.acta(chronicum_id, WindowQuery())
            assert contents(acta) == ["first", "between"]
            assert (await store.get(chronicum_id)).last_seq == 2

    async def test_forty_concurrent_records_with_one_key_store_one_actum(self) -> None:
        async with self.open_store() as store:
            chronicum_id = await _created(store, self.new_id())
            stored = await asyncio.gather(
                *(store.record_idempotent(actum(chronicum_id, f"{i}"), "key") for i in range(40))
            )
            acta = list(await store.acta(chronicum_id, WindowQuery()))
            assert len(acta) == 1
            assert stored == acta * 40

    async def test_different_keys_are_never_taken_for_one_another(self) -> None:
        async with self.open_store() as store:
            chronicum_id = await _created(store, self.new_id())
            keys = list(dict.fromkeys([*LOOKALIKES, *HOSTILE_TEXTS.values(), "k" * 1024]))
            for attempt in ("first", "second"):
                for i, key in enumerate(keys):
                    stored = await store.record_idempotent(
                        actum(chronicum_id, f"{attempt} {i}"), key
                    )
                    assert stored.content == f"first {i}", f"key {key!a}"
            assert (await store.get(chronicum_id)).last_seq == len(keys)


async def _created(store: Store, chronicum_id: str) -> str:
    now = utc_now()
    await store.create(
        Chronicum(id=chronicum_id, owner_id="ardian", created_at=now, last_activity_at=now)
    )
    return chronicum_id
