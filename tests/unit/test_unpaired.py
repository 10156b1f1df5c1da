"""What ``whole_calls`` removes from a window too long to hold is what it removes from a list."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import example, given
from hypothesis import strategies as st

from chronica.acta import ActumKind, whole_calls
from chronica.projections._unpaired import Unpaired

LONG = "x" * 100


@dataclass(frozen=True)
class Row:
    seq: int
    kind: str
    call_id: str | None


kinds = st.sampled_from([*ActumKind, ActumKind.TOOL_REQUEST, ActumKind.TOOL_RESPONSE])
call_ids = st.sampled_from([None, None, "a", "b", "\ud800", f"{LONG}1", f"{LONG}2"])
REQUEST, RESPONSE = ActumKind.TOOL_REQUEST, ActumKind.TOOL_RESPONSE


@given(st.lists(st.tuples(kinds, call_ids, st.integers(1, 3)), max_size=40))
@example([(RESPONSE, None, 1), (REQUEST, "a", 1), (RESPONSE, None, 1), (RESPONSE, "a", 1)])
@example([(REQUEST, "a", 1), (REQUEST, "a", 1), (RESPONSE, "a", 1), (RESPONSE, None, 1)])
@example([(RESPONSE, "a", 1), (REQUEST, "a", 1), (RESPONSE, "a", 1), (RESPONSE, "a", 1)])
def test_those_without_a_partner_are_those_whole_calls_removes(
    drawn: list[tuple[ActumKind, str | None, int]],
) -> None:
    rows, seq = [], 0
    for kind, call_id, step in drawn:
        seq += step  # filters leave gaps
        rows.append(Row(seq, kind, call_id))
    unpaired = Unpaired()
    for row in rows:
        if row.kind in (REQUEST, RESPONSE):
            unpaired.add(row.seq, row.kind, row.call_id)
    removed = sorted({row.seq for row in rows} - {row.seq for row in whole_calls(rows)})
    assert list(unpaired.seqs()) == removed
