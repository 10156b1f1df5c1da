"""Context windows through Chronicarius: filters, then limits, then whole calls."""

from __future__ import annotations

from typing import Any

from chronica.acta._chronicarius import Chronicarius
from chronica.acta._errors import InvalidWindowError
from chronica.acta._models import ActorKind, ActumKind
from chronica.acta.conformance._case import StoreCase, actum, contents, raises

__all__ = ["WindowCases"]

_KINDS = {
    "m": ActumKind.MESSAGE,
    "t": ActumKind.THOUGHT,
    "q": ActumKind.TOOL_REQUEST,
    "r": ActumKind.TOOL_RESPONSE,
}


class WindowCases(StoreCase):
    """Tests of ``get_acta``."""

    async def record_script(self, c: Chronicarius, script: str) -> str:
        """Record one actum a word, its kind by its first letter, its call id after a colon."""
        chronicum_id = self.new_id()
        for word in script.split():
            content, _, call_id = word.partition(":")
            sent = actum(chronicum_id, content, kind=_KINDS[word[0]], call_id=call_id or None)
            await c.record_actum("ardian", sent)
        return chronicum_id

    async def window(self, c: Chronicarius, chronicum_id: str, **options: Any) -> str:
        """Return the window's contents, a space between."""
        return " ".join(contents(await c.get_acta("ardian", chronicum_id, **options)))

    async def test_the_filters_run_before_the_limit(self) -> None:
        async with self.open_chronicarius() as c:
            chronicum_id = await self.record_script(c, "m1 m2 m3 t1 t2 t3 t4")
            assert await self.window(c, chronicum_id, kinds=["message"], last_n=2) == "m2 m3"

    async def test_a_limit_of_zero_or_less_is_no_limit(self) -> None:
        async with self.open_chronicarius() as c:
            chronicum_id = await self.record_script(c, "m1 t1 m2")
            for last_n in (0, -1, -(2**70), 3, 4, 2**70):
                assert await self.window(c, chronicum_id, last_n=last_n) == "m1 t1 m2"
            assert await self.window(c, chronicum_id, last_n=1) == "m2"

    async def test_an_empty_or_missing_filter_passes_everything(self) -> None:
        async with self.open_chronicarius() as c:
            chronicum_id = await self.record_script(c, "m1 t1 q1 r1")
            empties: list[Any] = [None, [], (), set()]
            for empty in empties:
                window = await self.window(c, chronicum_id, kinds=empty, actor_kinds=empty)
                assert window == "m1 t1 q1 r1"

    async def test_both_filters_have_to_pass(self) -> None:
        async with self.open_chronicarius() as c:
            chronicum_id = self.new_id()
            for kind in ActumKind:
                for actor_kind in ActorKind:
                    content = f"{kind}/{actor_kind}"
                    sent = actum(chronicum_id, content, kind=kind, actor_kind=actor_kind)
                    await c.record_actum("ardian", sent)
            window = await self.window(
                c,
                chronicum_id,
                kinds={ActumKind.TOOL_RESPONSE, ActumKind.MESSAGE},
                actor_kinds=["agent", ActorKind.HUMAN],
            )
            assert window == "message/human message/agent tool_response/human tool_response/agent"

    async def test_a_filter_that_nothing_passes_gives_an_empty_window(self) -> None:
        async with self.open_chronicarius() as c:
            chronicum_id = await self.record_script(c, "m1 m2")
            assert await self.window(c, chronicum_id, kinds=[ActumKind.THOUGHT], last_n=5) == ""

    async def test_max_chars_keeps_the_newest_and_stops_at_the_first_that_does_not_fit(
        self,
    ) -> None:
        async with self.open_chronicarius() as c:
            chronicum_id = await self.record_script(c, "m1 m2-that-is-long m3 m4")
            for max_chars, want in ((0, ""), (1, ""), (2, "m4"), (3, "m4"), (4, "m3 m4")):
                assert await self.window(c, chronicum_id, max_chars=max_chars) == want
            assert await self.window(c, chronicum_id, max_chars=18) == "m3 m4"
            assert await self.window(c, chronicum_id, max_chars=19) == "m2-that-is-long m3 m4"
            assert await self.window(c, chronicum_id, max_chars=2**70) == "m1 m2-that-is-long m3 m4"

    async def test_max_chars_counts_code_points_and_empty_acta_always_fit(self) -> None:
        async with self.open_chronicarius() as c:
            chronicum_id = self.new_id()
            texts = ["\U0001f600\ud800\x00", "", "\U0001f600" * 2]
            for text in texts:
                sent = actum(chronicum_id, text, kind=ActumKind.TOOL_REQUEST)
                await c.record_actum("ardian", sent)
            for max_chars, want in ((1, []), (2, texts[1:]), (4, texts[1:]), (5, texts)):
                acta = await c.get_acta("ardian", chronicum_id, max_chars=max_chars)
                assert contents(acta) == want

    async def test_max_chars_counts_only_what_passed_filters_and_limit(self) -> None:
        async with self.open_chronicarius() as c:
            chronicum_id = await self.record_script(c, "m1 m2 t-a-long-one m3")
            options: dict[str, Any] = {"kinds": ["message"], "max_chars": 6}
            assert await self.window(c, chronicum_id, **options) == "m1 m2 m3"
            assert await self.window(c, chronicum_id, last_n=2, **options) == "m2 m3"

    async def test_whole_calls_pairs_by_call_id_first_and_then_in_order(self) -> None:
        scripts = {
            "m1 q1:a r1:a m2": "m1 q1 r1 m2",
            "q1:a q2:b r2:b r1:a": "q1 q2 r2 r1",
            "q1:a q2:a r1:a": "q1 r1",
            "q1 q2 r1": "q1 r1",
            "q1:a q2 r2 r1:a": "q1 q2 r2 r1",
            "q1:a r1": "q1 r1",
            "q1:a r1 r2:a": "q1 r2",
            "q1 r1:a": "",
            "r1:a q1:a": "",
            "r1 q1 t1": "t1",
            "q1:a r1:a r2:a": "q1 r1",
        }
        async with self.open_chronicarius() as c:
            for script, want in scripts.items():
                chronicum_id = await self.record_script(c, script)
                got = await self.window(c, chronicum_id, whole_calls=True)
                assert got == want, f"{script!r} became {got!r}"

    async def test_whole_calls_judges_what_would_be_returned(self) -> None:
        async with self.open_chronicarius() as c:
            chronicum_id = await self.record_script(c, "q1:a m1 q2:b r1:a r2:b m2")
            for last_n, want in ((5, "m1 q2 r2 m2"), (6, "q1 m1 q2 r1 r2 m2"), (2, "m2")):
                got = await self.window(c, chronicum_id, last_n=last_n, whole_calls=True)
                assert got == want
            got = await self.window(c, chronicum_id, max_chars=10, whole_calls=True)
            assert got == "m1 q2 r2 m2"
            got = await self.window(c, chronicum_id, kinds=["message"], whole_calls=True)
            assert got == "m1 m2"

    async def test_options_that_make_no_sense_are_errors(self) -> None:
        async with self.open_chronicarius() as c:
            chronicum_id = await self.record_script(c, "m1")
            unusable: list[dict[str, Any]] = [
                {"kinds": ["shout"]},
                {"kinds": "message"},
                {"kinds": 7},
                {"kinds": [None]},
                {"actor_kinds": ["ghost"]},
                {"actor_kinds": "human"},
                {"last_n": True},
                {"last_n": 2.0},
                {"last_n": "2"},
                {"last_n": None},
                {"max_chars": -1},
                {"max_chars": True},
                {"max_chars": 2.0},
                {"whole_calls": True, "kinds": ["tool_request"]},
                {"whole_calls": True, "kinds": ["message", "tool_response"]},
            ]
            for options in unusable:
                with raises(InvalidWindowError):
                    await c.get_acta("ardian", chronicum_id, **options)
                    raise AssertionError(f"{options} was taken")
