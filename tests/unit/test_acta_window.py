"""Windows: filters, limits, and calls that are whole or gone."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronica.acta import (
    ActorKind,
    Actum,
    ActumKind,
    InvalidWindowError,
    WindowQuery,
    normal_query,
    select,
    validate_query,
    whole_calls,
)

TOOLS = (ActumKind.TOOL_REQUEST, ActumKind.TOOL_RESPONSE)

ACTA = st.lists(
    st.builds(
        Actum,
        chronicum_id=st.just("c"),
        kind=st.sampled_from(ActumKind),
        actor_kind=st.sampled_from(ActorKind),
        actor=st.just("a"),
        content=st.text("x", max_size=3),
        call_id=st.sampled_from([None, "1", "2", "3"]),
    ),
    max_size=25,
).map(lambda acta: [_numbered(actum, i) for i, actum in enumerate(acta)])

QUERIES = st.builds(
    WindowQuery,
    kinds=st.none() | st.sets(st.sampled_from(ActumKind)),
    actor_kinds=st.none() | st.sets(st.sampled_from(ActorKind)),
    last_n=st.integers(-2, 10),
    max_chars=st.none() | st.integers(0, 20),
)


def _numbered(actum: Actum, seq: int) -> Actum:
    return Actum(
        **{name: getattr(actum, name) for name in Actum.__slots__ if name != "seq"}, seq=seq
    )


def _plain_select(acta: list[Actum], query: WindowQuery) -> list[Actum]:
    """The definition, step by step, to hold the real one against."""
    passed = [
        a
        for a in acta
        if (not query.kinds or a.kind in query.kinds)
        and (not query.actor_kinds or a.actor_kind in query.actor_kinds)
    ]
    if query.last_n > 0:
        passed = passed[-query.last_n :]
    if query.max_chars is not None:
        while sum(len(a.content) for a in passed) > query.max_chars:
            passed = passed[1:]
    return passed


@given(ACTA, QUERIES)
def test_a_window_is_what_its_definition_says(acta: list[Actum], query: WindowQuery) -> None:
    assert select(acta, query) == _plain_select(acta, query)


@given(ACTA, QUERIES)
def test_whole_calls_is_applied_last(acta: list[Actum], query: WindowQuery) -> None:
    whole = WindowQuery(
        kinds=query.kinds,
        actor_kinds=query.actor_kinds,
        last_n=query.last_n,
        max_chars=query.max_chars,
        whole_calls=True,
    )
    assert select(acta, whole) == whole_calls(select(acta, query))


@given(ACTA)
def test_whole_calls_only_removes_and_only_tool_acta(acta: list[Actum]) -> None:
    kept = whole_calls(acta)
    seqs = [a.seq for a in kept]
    assert seqs == sorted(set(seqs))
    assert all(acta[a.seq] is a for a in kept)
    assert [a for a in kept if a.kind not in TOOLS] == [a for a in acta if a.kind not in TOOLS]


@given(ACTA)
def test_whole_calls_leaves_no_tool_actum_without_a_partner(acta: list[Actum]) -> None:
    kept = whole_calls(acta)
    open_requests = 0
    for actum in kept:
        open_requests += {ActumKind.TOOL_REQUEST: 1, ActumKind.TOOL_RESPONSE: -1}.get(actum.kind, 0)
        assert open_requests >= 0, "a response before its request"
    assert open_requests == 0, "a request without a response"
    for call_id in ("1", "2", "3"):
        open_requests = 0
        for actum in kept:
            if actum.call_id == call_id:
                open_requests += 1 if actum.kind is ActumKind.TOOL_REQUEST else 0
                open_requests -= 1 if actum.kind is ActumKind.TOOL_RESPONSE else 0
            assert open_requests >= 0, "a response that names a call which is not there"


@given(ACTA)
def test_whole_calls_keeps_every_response_that_has_a_request(acta: list[Actum]) -> None:
    """Every response by id that has an earlier request left for it is kept."""
    for call_id in ("1", "2", "3"):
        waiting = answered = 0
        for actum in (a for a in acta if a.call_id == call_id):
            waiting += actum.kind is ActumKind.TOOL_REQUEST
            if actum.kind is ActumKind.TOOL_RESPONSE and waiting:
                waiting, answered = waiting - 1, answered + 1
        kept = [a for a in whole_calls(acta) if a.call_id == call_id]
        assert sum(a.kind is ActumKind.TOOL_RESPONSE for a in kept) == answered


@given(ACTA)
def test_whole_calls_twice_is_whole_calls_once(acta: list[Actum]) -> None:
    once = whole_calls(acta)
    assert whole_calls(once) == once


def test_whole_calls_takes_any_row_with_a_kind_and_a_call_id() -> None:
    @dataclass
    class Row:
        kind: str
        call_id: str | None

    rows = [Row("tool_request", "1"), Row("message", None), Row("tool_response", "2")]
    assert whole_calls(iter(rows)) == [rows[1]]


def test_whole_calls_is_linear_in_unanswered_requests() -> None:
    request = Actum(
        chronicum_id="c", kind=ActumKind.TOOL_REQUEST, actor_kind=ActorKind.AGENT, actor="a"
    )
    # Quadratic work would run into the test's time limit.
    assert whole_calls([request] * 200_000) == []


def test_names_of_kinds_become_kinds_and_one_shot_iterables_are_copied() -> None:
    query = normal_query(
        last_n=0,
        kinds=iter(["message", ActumKind.THOUGHT]),  # type: ignore[arg-type]
        actor_kinds={"human"},
        max_chars=None,
        whole_calls=False,
    )
    assert query.kinds == (ActumKind.MESSAGE, ActumKind.THOUGHT)
    assert all(type(kind) is ActumKind for kind in query.kinds)
    assert query.actor_kinds == (ActorKind.HUMAN,)


@pytest.mark.parametrize(
    "query",
    [
        WindowQuery(),
        WindowQuery(last_n=-5, max_chars=0, whole_calls=True),
        WindowQuery(kinds=[ActumKind.MESSAGE], whole_calls=True),
        WindowQuery(kinds=TOOLS, whole_calls=True),
        WindowQuery(kinds=[ActumKind.TOOL_REQUEST]),
        WindowQuery(kinds=[], actor_kinds=[], whole_calls=True),
    ],
)
def test_a_query_that_makes_sense_is_valid(query: WindowQuery) -> None:
    validate_query(query)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        (WindowQuery(kinds=["shout"]), "kinds names 'shout'"),  # type: ignore[list-item]
        (WindowQuery(actor_kinds="human"), "actor_kinds is 'human'"),  # type: ignore[arg-type]
        (WindowQuery(last_n=True), "last_n is True"),
        (WindowQuery(last_n=1.0), "last_n is 1.0"),  # type: ignore[arg-type]
        (WindowQuery(max_chars=-1), "max_chars is -1"),
        (WindowQuery(max_chars=False), "max_chars is False"),
        (WindowQuery(kinds=[ActumKind.TOOL_REQUEST], whole_calls=True), "only tool_request"),
        (WindowQuery(kinds=[ActumKind.TOOL_RESPONSE], whole_calls=True), "only tool_response"),
    ],
)
def test_a_query_that_makes_none_says_which_option(query: WindowQuery, told: str) -> None:
    with pytest.raises(InvalidWindowError, match=told):
        validate_query(query)
