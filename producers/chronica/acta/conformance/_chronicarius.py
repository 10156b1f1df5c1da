"""A store behind Chronicarius: recording and ownership, and with them windows and fidelity."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

from chronica.acta._chronicarius import Chronicarius
from chronica.acta._errors import (
    ChronicumNotFoundError,
    EmptyOwnerIDError,
    InvalidActumError,
    InvalidOwnerIDError,
)
from chronica.acta._models import ActorKind, Actum, ActumKind
from chronica.acta.conformance._case import actum, contents, gathered, raises
from chronica.acta.conformance._fidelity import FidelityCases
from chronica.acta.conformance._windows import WindowCases

__all__ = ["ChronicariusConformance"]

_INVALID: list[tuple[str, dict[str, object]]] = [
    ("chronicum_id", {"chronicum_id": ""}),
    ("chronicum_id", {"chronicum_id": 7}),
    ("chronicum_id", {"chronicum_id": "c" * 1025}),
    ("kind", {"kind": "shout"}),
    ("kind", {"kind": ""}),
    ("kind", {"kind": None}),
    ("kind", {"kind": ["message"]}),
    ("actor_kind", {"actor_kind": "ghost"}),
    ("actor_kind", {"actor_kind": None}),
    ("actor", {"actor": ""}),
    ("actor", {"actor": None}),
    ("actor", {"actor": "a" * 1025}),
    ("content", {"content": ""}),
    ("content", {"content": "", "kind": ActumKind.THOUGHT}),
    ("content", {"content": None}),
    ("content", {"content": b"hello"}),
    ("content", {"content": None, "kind": ActumKind.TOOL_REQUEST}),
    ("call_id", {"call_id": ""}),
    ("call_id", {"call_id": 7}),
    ("call_id", {"call_id": "c" * 1025}),
    ("metadata", {"metadata": [1]}),
    ("metadata", {"metadata": "{}"}),
    ("metadata", {"metadata": {"a": object()}}),
    ("metadata", {"metadata": {"a": {1, 2}}}),
    ("metadata", {"metadata": {"a": b"bytes"}}),
    ("metadata", {"metadata": {("a", "b"): 1}}),
]


class ChronicariusConformance(WindowCases, FidelityCases):
    """Tests of what Chronicarius promises, whatever the store behind it."""

    async def test_the_first_actum_creates_its_chronicum_for_its_owner(self) -> None:
        async with self.open_chronicarius() as c:
            chronicum_id = self.new_id()
            stored = await c.record_actum("ardian", actum(chronicum_id, "find a table"))
            chronicum = await c.get_chronicum("ardian", chronicum_id)
            assert (chronicum.id, chronicum.owner_id) == (chronicum_id, "ardian")
            assert chronicum.last_seq == stored.seq == 1
            assert chronicum.created_at <= chronicum.last_activity_at
            assert await c.get_acta("ardian", chronicum_id) == [stored]

    async def test_ids_are_assigned_and_unique_whatever_the_caller_sent(self) -> None:
        async with self.open_chronicarius() as c:
            chronicum_id = self.new_id()
            sent = actum(chronicum_id, id="mine")
            stored = [await c.record_actum("ardian", sent) for _ in range(5)]
            ids = {each.id for each in stored}
            assert len(ids) == 5
            assert not ids & {"", "mine"}
            assert [each.id for each in await c.get_acta("ardian", chronicum_id)] == [
                each.id for each in stored
            ]

    async def test_time_and_seq_of_the_caller_are_ignored(self) -> None:
        async with self.open_chronicarius() as c:
            chronicum_id = self.new_id()
            at = datetime(2900, 1, 1, tzinfo=UTC)
            stored = await c.record_actum("ardian", actum(chronicum_id, at=at, seq=77))
            assert stored.seq == 1
            assert stored.at != at

    async def test_kinds_may_be_given_as_plain_text(self) -> None:
        async with self.open_chronicarius() as c:
            sent = actum(self.new_id(), kind="thought", actor_kind="system")
            stored = await c.record_actum("ardian", sent)
            assert stored.kind is ActumKind.THOUGHT
            assert stored.actor_kind is ActorKind.SYSTEM

    async def test_tool_requests_and_responses_may_be_empty(self) -> None:
        async with self.open_chronicarius() as c:
            chronicum_id = self.new_id()
            for kind in (ActumKind.TOOL_REQUEST, ActumKind.TOOL_RESPONSE):
                stored = await c.record_actum("ardian", actum(chronicum_id, "", kind=kind))
                assert (stored.kind, stored.content) == (kind, "")

    async def test_every_invalid_field_is_named_and_nothing_is_created(self) -> None:
        async with self.open_chronicarius() as c:
            chronicum_id = self.new_id()
            valid = actum(chronicum_id)
            for field, fields in _INVALID:
                invalid = replace(valid, **fields)  # type: ignore[arg-type]
                with raises(InvalidActumError) as caught:
                    await c.record_actum("ardian", invalid)
                assert caught.error.field == field, f"{fields} was said to be {caught.error.field}"
                await _assert_not_found(c, "ardian", chronicum_id)

    async def test_an_invalid_actum_uses_up_no_seq(self) -> None:
        async with self.open_chronicarius() as c:
            chronicum_id = self.new_id()
            await c.record_actum("ardian", actum(chronicum_id))
            with raises(InvalidActumError):
                await c.record_actum("ardian", actum(chronicum_id, ""))
            assert (await c.get_chronicum("ardian", chronicum_id)).last_seq == 1
            assert (await c.record_actum("ardian", actum(chronicum_id))).seq == 2

    async def test_an_unusable_owner_is_an_error_on_every_call(self) -> None:
        async with self.open_chronicarius() as c:
            chronicum_id = self.new_id()
            await c.record_actum("ardian", actum(chronicum_id))
            for owner, error in (
                ("", EmptyOwnerIDError),
                ("o" * 1025, InvalidOwnerIDError),
                (7, InvalidOwnerIDError),
                (None, InvalidOwnerIDError),
            ):
                with raises(error):
                    await c.record_actum(owner, actum(chronicum_id))  # type: ignore[arg-type]
                with raises(error):
                    await c.get_acta(owner, chronicum_id)  # type: ignore[arg-type]
                with raises(error):
                    await c.get_chronicum(owner, chronicum_id)  # type: ignore[arg-type]
            assert len(await c.get_acta("ardian", chronicum_id)) == 1

    async def test_foreign_and_missing_chronica_look_the_same_on_every_call(self) -> None:
        async with self.open_chronicarius() as c:
            foreign, missing = self.new_id(), self.new_id()
            await c.record_actum("ardian", actum(foreign))
            told: list[set[str]] = []
            for chronicum_id in (foreign, missing):
                texts = set()
                with raises(ChronicumNotFoundError) as caught:
                    await c.get_acta("eve", chronicum_id)
                texts.add(str(caught.error).replace(chronicum_id, "ID"))
                with raises(ChronicumNotFoundError) as caught:
                    await c.get_chronicum("eve", chronicum_id)
                texts.add(str(caught.error).replace(chronicum_id, "ID"))
                told.append(texts)
            with raises(ChronicumNotFoundError) as caught:
                await c.record_actum("eve", actum(foreign))
            told.append({str(caught.error).replace(foreign, "ID")})
            assert told[0] == told[1] == told[2]
            await _assert_not_found(c, "eve", missing)

    async def test_a_foreign_write_changes_nothing(self) -> None:
        async with self.open_chronicarius() as c:
            chronicum_id = self.new_id()
            await c.record_actum("ardian", actum(chronicum_id, "mine"))
            before = await c.get_chronicum("ardian", chronicum_id)
            with raises(ChronicumNotFoundError):
                await c.record_actum("eve", actum(chronicum_id, "hers"))
            assert await c.get_chronicum("ardian", chronicum_id) == before
            assert contents(await c.get_acta("ardian", chronicum_id)) == ["mine"]

    async def test_of_two_owners_who_race_to_create_exactly_one_wins(self) -> None:
        async with self.open_chronicarius() as c:
            for _ in range(20):
                chronicum_id = self.new_id()
                won, lost = await gathered(
                    (_record_as(c, owner, chronicum_id) for owner in ("ardian", "eve")),
                    ChronicumNotFoundError,
                )
                assert len(won) == len(lost) == 1
                winner = won[0].content
                loser = "eve" if winner == "ardian" else "ardian"
                assert await c.get_acta(winner, chronicum_id) == won
                await _assert_not_found(c, loser, chronicum_id)

    async def test_forty_first_acta_at_once_make_one_chronicum_without_a_gap(self) -> None:
        async with self.open_chronicarius() as c:
            chronicum_id = self.new_id()
            stored = await asyncio.gather(
                *(c.record_actum("ardian", actum(chronicum_id, f"{i}")) for i in range(40))
            )
            acta = await c.get_acta("ardian", chronicum_id)
            assert [each.seq for each in acta] == list(range(1, 41))
            assert sorted(stored, key=lambda each: each.seq) == acta
            assert (await c.get_chronicum("ardian", chronicum_id)).last_seq == 40


async def _record_as(c: Chronicarius, owner: str, chronicum_id: str) -> Actum:
    return await c.record_actum(owner, actum(chronicum_id, owner))


async def _assert_not_found(c: Chronicarius, owner: str, chronicum_id: str) -> None:
    with raises(ChronicumNotFoundError):
        await c.get_chronicum(owner, chronicum_id)
