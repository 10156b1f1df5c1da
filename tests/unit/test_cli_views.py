"""What is shown of acta: nothing in a content acts on the terminal or breaks the print."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import pytest
from rich.console import Console

from chronica.acta import ActorKind, Actum, ActumKind
from chronica.infra.cli._sample import OWNER, sample_acta
from chronica.infra.cli._terminal import printable
from chronica.infra.cli._views import actum_fields, window_table


def actum(content: str, actor: str = "ardian") -> Actum:
    return Actum(
        chronicum_id="c",
        kind=ActumKind.MESSAGE,
        actor_kind=ActorKind.HUMAN,
        actor=actor,
        content=content,
        call_id="call",
        at=datetime(2026, 1, 2, 3, 4, 5, 6789, tzinfo=UTC),
        seq=1,
    )


def shown(*acta: Actum, title: str = "t") -> str:
    console = Console(file=io.StringIO(), width=100, force_terminal=False)
    console.print(window_table(title, acta))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("plain é 漢 🙂", "plain é 漢 🙂"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("a\x00b\x07\x9b\r", r"a\x00b\x07\x9b\r"),
        ("\ud800", r"\ud800"),
        ("\u202e", r"\u202e"),
        ("a\nb\tc\u00a0d", "a\nb\tc\u00a0d"),
    ],
)
def test_what_a_terminal_would_act_upon_is_escaped(text: str, safe: str) -> None:
    assert printable(text) == safe


def test_contents_titles_and_actors_are_text_and_not_markup() -> None:
    text = shown(actum("[red]x[/] [/nope]", actor="[b]me"), title="[/t]\x1b")
    assert "[red]x[/] [/nope]" in text
    assert "[b]me" in text
    assert r"[/t]\x1b" in text


def test_hostile_contents_are_shown_on_lines_of_their_own() -> None:
    text = shown(actum("a\x1b[2J\ud800\x00\nb" * 3), actum("second"))
    text.encode("utf-8")
    assert not {"\x1b", "\x00", "\ud800"} & set(text)
    assert "second" in text


def test_long_contents_are_shortened_and_say_so() -> None:
    text = shown(actum("x" * 1_000_000))
    assert "(+999,720)" in text
    assert len(text) < 3000


def test_fields_are_those_of_the_http_api() -> None:
    assert list(actum_fields(actum("x")).items()) == [
        ("id", ""),
        ("chronicum_id", "c"),
        ("seq", 1),
        ("at", "2026-01-02T03:04:05.006Z"),
        ("kind", "message"),
        ("actor_kind", "human"),
        ("actor", "ardian"),
        ("content", "x"),
        ("call_id", "call"),
        ("metadata", None),
    ]


def test_the_sample_has_one_human_several_agents_and_whole_calls() -> None:
    acta = sample_acta("c")
    humans = {a.actor for a in acta if a.actor_kind is ActorKind.HUMAN}
    agents = {a.actor for a in acta if a.actor_kind is ActorKind.AGENT}
    assert humans == {OWNER}
    assert len(agents) == 3
    assert {a.kind for a in acta} == set(ActumKind)
    requests = [a.call_id for a in acta if a.kind is ActumKind.TOOL_REQUEST]
    responses = [a.call_id for a in acta if a.kind is ActumKind.TOOL_RESPONSE]
    assert requests == responses
