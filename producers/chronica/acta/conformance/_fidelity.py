"""Whatever comes in comes out the same, wherever a text may stand (rule 3.9)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from chronica.acta._chronicarius import Chronicarius
from chronica.acta._errors import ChronicumNotFoundError
from chronica.acta._models import TEXT_CODE_POINTS_MAX, Actum, ActumKind
from chronica.acta.conformance._case import StoreCase, actum, contents, raises
from chronica.acta.conformance._hostile import (
    HOSTILE_METADATA,
    HOSTILE_TEXTS,
    LOOKALIKES,
    same_json,
)

__all__ = ["FidelityCases"]

_LONGEST = {
    "the longest of ASCII": "x" * TEXT_CODE_POINTS_MAX,
    "the longest of emoji": "\U0001f600" * TEXT_CODE_POINTS_MAX,
    "the longest of NULs": "\x00" * TEXT_CODE_POINTS_MAX,
    "the longest of lone surrogates": "\udfff" * TEXT_CODE_POINTS_MAX,
}


class FidelityCases(StoreCase):
    """Tests that hostile texts and JSON values come back untouched."""

    async def test_hostile_texts_come_back_as_content_actor_and_call_id(self) -> None:
        async with self.open_chronicarius() as c:
            chronicum_id = self.new_id()
            sent = [
                actum(chronicum_id, text, actor=text, call_id=text, kind=ActumKind.TOOL_REQUEST)
                for text in (dict(HOSTILE_TEXTS) | _LONGEST).values()
            ]
            await _assert_kept(c, "ardian", sent)

    async def test_hostile_texts_come_back_as_chronicum_id_and_owner(self) -> None:
        async with self.open_chronicarius() as c:
            for name, text in HOSTILE_TEXTS.items():
                chronicum_id, owner = text + self.new_id() + text, f"{text}ardian{text}"
                await _assert_kept(c, owner, [actum(chronicum_id, name)])
                chronicum = await c.get_chronicum(owner, chronicum_id)
                assert (chronicum.id, chronicum.owner_id) == (chronicum_id, owner), name

    async def test_the_longest_chronicum_id_and_owner_are_taken(self) -> None:
        async with self.open_chronicarius() as c:
            for name, text in _LONGEST.items():
                chronicum_id = (self.new_id() + text)[:TEXT_CODE_POINTS_MAX]
                await _assert_kept(c, text, [actum(chronicum_id, name)])
                with raises(ChronicumNotFoundError):
                    await c.get_chronicum(text[1:], chronicum_id)

    async def test_ids_that_look_alike_are_different_chronica(self) -> None:
        async with self.open_chronicarius() as c:
            prefix = self.new_id()
            for text in LOOKALIKES:
                stored = await c.record_actum("ardian", actum(prefix + text, f"{text!a}"))
                assert stored.seq == 1, f"{text!a} was taken for another"
            for text in LOOKALIKES:
                assert contents(await c.get_acta("ardian", prefix + text)) == [f"{text!a}"]

    async def test_owners_that_look_alike_are_different_owners(self) -> None:
        async with self.open_chronicarius() as c:
            for owner in LOOKALIKES:
                chronicum_id = self.new_id()
                await c.record_actum(owner, actum(chronicum_id))
                for other in LOOKALIKES:
                    if other != owner:
                        with raises(ChronicumNotFoundError):
                            await c.get_chronicum(other, chronicum_id)
                        with raises(ChronicumNotFoundError):
                            await c.record_actum(other, actum(chronicum_id))

    async def test_calls_are_paired_by_ids_that_look_alike_but_differ(self) -> None:
        async with self.open_chronicarius() as c:
            chronicum_id = self.new_id()
            for kind in (ActumKind.TOOL_REQUEST, ActumKind.TOOL_RESPONSE):
                for text in reversed(LOOKALIKES):
                    if kind is ActumKind.TOOL_REQUEST or text != "a\x00":
                        sent = actum(chronicum_id, f"{text!a}", kind=kind, call_id=text)
                        await c.record_actum("ardian", sent)
            acta = await c.get_acta("ardian", chronicum_id, whole_calls=True)
            paired = [f"{text!a}" for text in reversed(LOOKALIKES) if text != "a\x00"]
            assert contents(acta) == paired * 2

    async def test_a_content_of_a_million_characters_comes_back(self) -> None:
        async with self.open_chronicarius() as c:
            chronicum_id = self.new_id()
            long = "".join(HOSTILE_TEXTS.values())
            texts = ["x" * 1_000_000, long * (1_000_000 // len(long) + 1)]
            await _assert_kept(c, "ardian", [actum(chronicum_id, text) for text in texts])

    async def test_hostile_metadata_comes_back(self) -> None:
        async with self.open_chronicarius() as c:
            chronicum_id = self.new_id()
            sent = [
                actum(chronicum_id, name, metadata=value)
                for name, value in HOSTILE_METADATA.items()
            ]
            await _assert_kept(c, "ardian", [*sent, actum(chronicum_id, "none at all")])

    async def test_metadata_comes_back_as_what_json_makes_of_it(self) -> None:
        async with self.open_chronicarius() as c:
            chronicum_id = self.new_id()
            metadata: dict[Any, Any] = {"tuple": (1, 2), 3: "name", "big": float("1e400")}
            stored = await c.record_actum("ardian", actum(chronicum_id, metadata=metadata))
            want = {"tuple": [1, 2], "3": "name", "big": math.inf}
            assert same_json(stored.metadata, want)
            (read,) = await c.get_acta("ardian", chronicum_id)
            assert same_json(read.metadata, want)

    async def test_stored_metadata_is_nobodys_to_change(self) -> None:
        async with self.open_chronicarius() as c:
            chronicum_id = self.new_id()
            metadata: dict[str, Any] = {"a": [1]}
            stored = await c.record_actum("ardian", actum(chronicum_id, metadata=metadata))
            metadata["a"].append("by the sender")
            assert isinstance(stored.metadata, dict)
            stored.metadata["a"].append("by the recorder")
            (read,) = await c.get_acta("ardian", chronicum_id)
            assert read.metadata == {"a": [1]}
            assert isinstance(read.metadata, dict)
            read.metadata["a"].append("by a reader")
            (read_again,) = await c.get_acta("ardian", chronicum_id)
            assert read_again.metadata == {"a": [1]}


async def _assert_kept(c: Chronicarius, owner: str, sent: list[Actum]) -> None:
    """Record all and assert that all come back, from the write and from the window."""
    stored = [await c.record_actum(owner, each) for each in sent]
    read = await c.get_acta(owner, sent[0].chronicum_id)
    assert len(read) == len(sent)
    for want, *both in zip(sent, stored, read, strict=True):
        for got in both:
            assert _is_kept(want, got), f"{want.content[:80]!a} did not come back the same"


def _is_kept(want: Actum, got: Actum) -> bool:
    assigned = replace(want, id=got.id, at=got.at, seq=got.seq, metadata=got.metadata)
    # Not by ==: NaN is unequal to itself, and 1 is equal to True.
    return got == assigned and same_json(got.metadata, want.metadata)
