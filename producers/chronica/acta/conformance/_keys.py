"""Idempotency keys through Chronicarius: the same for every store that can deduplicate."""

from __future__ import annotations

import asyncio

from chronica.acta._errors import (
    ChronicumNotFoundError,
    InvalidActumError,
    InvalidIdempotencyKeyError,
)
from chronica.acta.conformance._case import StoreCase, actum, contents, raises

__all__ = ["KeyCases"]


class KeyCases(StoreCase):
    """Tests of ``record_actum(..., idempotency_key=...)``."""

    async def test_a_retry_returns_the_first_actum_and_drops_the_new_payload(self) -> None:
        async with self.open_chronicarius() as c:
            chronicum_id = self.new_id()
            sent = actum(chronicum_id, "first", metadata={"a": 1})
            first = await c.record_actum("ardian", sent, idempotency_key="turn-3-reply")
            retry = actum(chronicum_id, "in other words", actor="somebody", metadata={"b": 2})
            again = await c.record_actum("ardian", retry, idempotency_key="turn-3-reply")
            assert first.content == "first"
            assert again == first
            assert await c.get_acta("ardian", chronicum_id) == [first]
            assert (await c.get_chronicum("ardian", chronicum_id)).last_seq == 1

    async def test_a_retry_does_not_use_up_a_seq(self) -> None:
        async with self.open_chronicarius() as c:
            chronicum_id = self.new_id()
            for _ in range(3):
                await c.record_actum("ardian", actum(chronicum_id), idempotency_key="key")
            assert (await c.record_actum("ardian", actum(chronicum_id))).seq == 2

    async def test_forty_concurrent_writes_with_one_key_are_one_actum(self) -> None:
        async with self.open_chronicarius() as c:
            chronicum_id = self.new_id()
            stored = await asyncio.gather(
                *(
                    c.record_actum("ardian", actum(chronicum_id, f"{i}"), idempotency_key="key")
                    for i in range(40)
                )
            )
            acta = await c.get_acta("ardian", chronicum_id)
            assert len(acta) == 1
            assert stored == acta * 40

    async def test_one_key_in_two_chronica_is_two_acta(self) -> None:
        async with self.open_chronicarius() as c:
            one, other = self.new_id(), self.new_id()
            for chronicum_id in (one, other):
                await c.record_actum(
                    "ardian", actum(chronicum_id, chronicum_id), idempotency_key="k"
                )
            assert contents(await c.get_acta("ardian", one)) == [one]
            assert contents(await c.get_acta("ardian", other)) == [other]

    async def test_a_foreign_owner_with_a_known_key_is_not_found(self) -> None:
        async with self.open_chronicarius() as c:
            chronicum_id = self.new_id()
            first = await c.record_actum("ardian", actum(chronicum_id), idempotency_key="key")
            with raises(ChronicumNotFoundError):
                await c.record_actum("eve", actum(chronicum_id), idempotency_key="key")
            assert await c.get_acta("ardian", chronicum_id) == [first]

    async def test_a_refused_write_leaves_its_key_and_its_seq_free(self) -> None:
        async with self.open_chronicarius() as c:
            chronicum_id = self.new_id()
            await c.record_actum("ardian", actum(chronicum_id, "first"))
            with raises(ChronicumNotFoundError):
                await c.record_actum("eve", actum(chronicum_id, "foreign"), idempotency_key="key")
            with raises(InvalidActumError):
                await c.record_actum("ardian", actum(chronicum_id, ""), idempotency_key="key")
            mine = await c.record_actum(
                "ardian", actum(chronicum_id, "mine"), idempotency_key="key"
            )
            assert (mine.content, mine.seq) == ("mine", 2)

    async def test_an_unusable_key_is_an_error_and_creates_nothing(self) -> None:
        async with self.open_chronicarius() as c:
            for key in ("", "k" * 1025, 7, b"key"):
                chronicum_id = self.new_id()
                with raises(InvalidIdempotencyKeyError):
                    await c.record_actum("ardian", actum(chronicum_id), idempotency_key=key)  # type: ignore[arg-type]
                with raises(ChronicumNotFoundError):
                    await c.get_chronicum("ardian", chronicum_id)
