"""One round trip that decides: guard, key, ``expected_seq``, create, record (rule 3.3)."""

from __future__ import annotations

from chronica.acta._errors import (
    ChronicumNotFoundError,
    InvalidActumError,
    SequenceConflictError,
)
from chronica.acta._ports import DecidingStore
from chronica.acta.conformance._case import actum, contents, gathered, raises
from chronica.acta.conformance._keys import KeyCases

__all__ = ["DecidingStoreConformance"]


class DecidingStoreConformance(KeyCases):
    """Tests of ``DecidingStore``, of keys and of ``expected_seq`` through Chronicarius."""

    async def test_a_deciding_store_is_recognised(self) -> None:
        async with self.open_store() as store:
            assert isinstance(store, DecidingStore)

    async def test_submit_creates_the_chronicum_for_its_owner(self) -> None:
        async with self.open_store() as store:
            chronicum_id = self.new_id()
            sent = actum(chronicum_id, "first")
            decision = await store.submit("ardian", sent, key=None, expected_seq=None)
            assert not decision.duplicate
            assert (decision.actum.id, decision.actum.seq) == (sent.id, 1)
            chronicum = await store.get(chronicum_id)
            assert (chronicum.owner_id, chronicum.last_seq) == ("ardian", 1)

    async def test_submit_says_which_decision_was_a_duplicate(self) -> None:
        async with self.open_store() as store:
            chronicum_id = self.new_id()
            first = await store.submit(
                "ardian", actum(chronicum_id, "first"), key="key", expected_seq=None
            )
            again = await store.submit(
                "ardian", actum(chronicum_id, "second"), key="key", expected_seq=None
            )
            assert (first.duplicate, again.duplicate) == (False, True)
            assert again.actum == first.actum

    async def test_the_expected_seq_records_only_there(self) -> None:
        async with self.open_chronicarius() as c:
            chronicum_id = self.new_id()
            for seq in (0, 1, 2):
                stored = await c.record_actum("ardian", actum(chronicum_id), expected_seq=seq)
                assert stored.seq == seq + 1
            for wrong in (0, 2, 4, 2**63 - 1):
                with raises(SequenceConflictError) as caught:
                    await c.record_actum("ardian", actum(chronicum_id), expected_seq=wrong)
                assert caught.error.current_seq == 3
                assert caught.error.expected_seq == wrong
            assert len(await c.get_acta("ardian", chronicum_id)) == 3

    async def test_a_conflict_on_a_missing_chronicum_is_at_zero_and_creates_nothing(self) -> None:
        async with self.open_store() as store:
            chronicum_id = self.new_id()
            with raises(SequenceConflictError) as caught:
                await store.submit("ardian", actum(chronicum_id), key="key", expected_seq=1)
            assert caught.error.current_seq == 0
            await self.assert_nothing_was_created(store, chronicum_id)

    async def test_after_a_conflict_anyone_may_still_create_the_chronicum(self) -> None:
        async with self.open_chronicarius() as c:
            chronicum_id = self.new_id()
            with raises(SequenceConflictError):
                await c.record_actum("eve", actum(chronicum_id), expected_seq=1)
            assert (await c.record_actum("ardian", actum(chronicum_id), expected_seq=0)).seq == 1

    async def test_a_conflict_leaves_its_key_and_its_seq_free(self) -> None:
        async with self.open_chronicarius() as c:
            chronicum_id = self.new_id()
            await c.record_actum("ardian", actum(chronicum_id, "first"))
            late = actum(chronicum_id, "late")
            with raises(SequenceConflictError):
                await c.record_actum("ardian", late, idempotency_key="key", expected_seq=0)
            kept = await c.record_actum("ardian", late, idempotency_key="key", expected_seq=1)
            assert (kept.content, kept.seq) == ("late", 2)

    async def test_a_retry_with_a_known_key_is_a_duplicate_and_not_a_conflict(self) -> None:
        async with self.open_chronicarius() as c:
            chronicum_id = self.new_id()
            sent = actum(chronicum_id, "first")
            first = await c.record_actum("ardian", sent, idempotency_key="key", expected_seq=0)
            await c.record_actum("ardian", actum(chronicum_id, "second"))
            again = await c.record_actum("ardian", sent, idempotency_key="key", expected_seq=0)
            assert again == first
            assert contents(await c.get_acta("ardian", chronicum_id)) == ["first", "second"]

    async def test_a_foreign_owner_learns_no_seq(self) -> None:
        async with self.open_chronicarius() as c:
            chronicum_id = self.new_id()
            await c.record_actum("ardian", actum(chronicum_id))
            for expected_seq in (0, 1, 7):
                with raises(ChronicumNotFoundError):
                    await c.record_actum("eve", actum(chronicum_id), expected_seq=expected_seq)

    async def test_of_forty_concurrent_writes_at_one_seq_one_succeeds(self) -> None:
        async with self.open_chronicarius() as c:
            chronicum_id = self.new_id()
            await c.record_actum("ardian", actum(chronicum_id))
            recorded, refused = await gathered(
                (
                    c.record_actum("ardian", actum(chronicum_id, f"{i}"), expected_seq=1)
                    for i in range(40)
                ),
                SequenceConflictError,
            )
            assert len(recorded) == 1
            assert [error.current_seq for error in refused] == [2] * 39
            assert (await c.get_acta("ardian", chronicum_id))[1:] == recorded

    async def test_an_unusable_expected_seq_is_an_error_and_creates_nothing(self) -> None:
        async with self.open_chronicarius() as c:
            chronicum_id = self.new_id()
            for expected_seq in (-1, True, False, 0.0, "0", 2**63):
                with raises(InvalidActumError) as caught:
                    await c.record_actum(
                        "ardian",
                        actum(chronicum_id),
                        expected_seq=expected_seq,  # type: ignore[arg-type]
                    )
                assert caught.error.field == "expected_seq"
            with raises(ChronicumNotFoundError):
                await c.get_chronicum("ardian", chronicum_id)
