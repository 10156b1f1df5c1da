"""``fold``: records in, rows out; however the log is cut into batches, the rows are the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.harness.submissions import actum, create, read_one, record_of
from tests.simulation.sim_postgres import Postgres

from chronica.log import Submission
from chronica.projections import (
    ActumRow,
    Batch,
    DeadLetterRow,
    Found,
    HeadRow,
    OutcomeRow,
    chronicum_number,
)
from chronica.recorder._fold import LogRecord, checksum, fold, wanted
from chronica.recorder._state import PartitionState

BEGIN_MS = 1_700_000_000_000
POISON = LogRecord(0, BEGIN_MS, b"key", b"\xff", (("trace", b"\x00\xff"), ("empty", None)))


def log_of(*items: Submission | LogRecord) -> list[LogRecord]:
    """Return a log: each item a submission, or a record as it is but for its offset."""
    return [
        replace(item, offset=offset) if isinstance(item, LogRecord) else record_of(item, offset)
        for offset, item in enumerate(items)
    ]


def record_in_batches(
    log: Sequence[LogRecord], cuts: Sequence[int] = (), heads_max: int = 50_000
) -> tuple[Postgres, list[Batch]]:
    """Record a log that is cut before each of these offsets, on the model of Postgres."""
    postgres, state, batches = Postgres(1), PartitionState(heads_max), []
    session = postgres.connect()
    claim = postgres.claim(session, 0)
    assert claim is not None
    edges = [0, *sorted(set(cuts)), len(log)]
    for start, end in pairwise(edges):
        if start == end:
            continue
        reads = [read_one(record) for record in log[start:end]]
        asked = wanted(state, reads)
        state.begin(asked.heads, postgres.look_up(session, claim, asked))
        batch = fold(state, reads, partition=0, next_offset=end)
        postgres.write(session, claim, start, batch)
        state.end()
        batches.append(batch)
    return postgres, batches


def fold_once(*items: Submission | LogRecord) -> Batch:
    _postgres, (batch,) = record_in_batches(log_of(*items))
    return batch


def test_acta_are_counted_from_one_in_the_order_of_the_log() -> None:
    batch = fold_once(
        *(actum(id=f"s{n}", chronicum="ab"[n % 2]) for n in range(6)),
    )
    assert [(a.chronicum, a.seq, a.offset) for a in batch.acta] == [
        (chronicum_number(0, n % 2), n // 2 + 1, n) for n in range(6)
    ]


def test_an_actum_is_stored_with_all_that_came() -> None:
    submission = actum(
        kind="tool_response",
        actor_kind="system",
        actor="clock\x00",
        key="k\ud800",
        call_id="call-1",
        content="12:00",
        metadata='{"a": NaN}',
        expected_seq=0,
    )
    (row,) = fold_once(submission).acta
    digests = read_one(record_of(submission)).digests
    assert digests is not None
    assert row == ActumRow(
        chronicum=chronicum_number(0, 0),
        seq=1,
        offset=0,
        at_ms=BEGIN_MS,
        dedupe=digests.dedupe,
        kind="tool_response",
        actor_kind="system",
        id="s1",
        actor="clock\x00",
        call_id="call-1",
        key="k\ud800",
        metadata='{"a": NaN}',
        content="12:00",
    )


def test_a_chronicum_has_one_head_a_batch_as_it_is_after_it() -> None:
    batch = fold_once(actum(id="s1"), actum(id="s2"), actum(id="s3", owner=None))
    digests = read_one(record_of(actum())).digests
    assert digests is not None
    assert batch.heads == [
        HeadRow(0, digests.chronicum, "t", "dinner", "ann", BEGIN_MS, BEGIN_MS + 2000, last_seq=3)
    ]


def test_what_changes_nothing_touches_no_head() -> None:
    log = log_of(actum(key="k"), actum(id="s2", key="k"), actum(id="s3", owner="bob"), create())
    _postgres, batches = record_in_batches(log, [1])
    assert batches[1].heads == []
    assert [o.reason for o in batches[1].outcomes] == [None, "not_found", "exists"]


def test_the_last_activity_never_goes_back_when_the_brokers_clock_does() -> None:
    log = [
        record_of(actum(id="s1"), 0, BEGIN_MS + 50),
        record_of(actum(id="s2"), 1, BEGIN_MS),
        record_of(actum(id="s3"), 2, BEGIN_MS + 20),
    ]
    for cuts in ([], [1], [1, 2]):
        postgres, batches = record_in_batches(log, cuts)
        (head,) = postgres.tables["chronica"].values()
        assert (head.created_at_ms, head.last_activity_at_ms) == (BEGIN_MS + 50, BEGIN_MS + 50)
        # The actum itself has the time of its record: order is never a timestamp.
        assert [a.at_ms - BEGIN_MS for b in batches for a in b.acta] == [50, 0, 20]


@pytest.mark.parametrize(
    "record",
    [
        POISON,
        replace(POISON, value=None),
        replace(POISON, key=None, headers=()),
        replace(POISON, key=None, value=None),
        replace(POISON, value=b""),
    ],
)
def test_a_dead_letter_is_complete(record: LogRecord) -> None:
    batch = fold_once(actum(), record, actum(id="s2"))
    (letter,) = batch.dead_letters
    assert letter == DeadLetterRow(
        1,
        BEGIN_MS,
        letter.reason,
        letter.detail,
        record.key,
        record.value,
        record.headers,
    )
    assert letter.reason
    assert letter.detail
    assert [a.seq for a in batch.acta] == [1, 2], "its neighbours go on"


def test_each_decision_has_its_outcome_row() -> None:
    submissions = [
        create(),
        actum(key="k"),
        actum(id="s2", key="k"),
        actum(id="s3", expected_seq=5),
        actum(id="s4", chronicum="none", owner=None),
        actum(id="s5", owner="bob"),
        create(id="c2"),
        create(),
        actum(id="s3", expected_seq=1),
    ]

    def digest(n: int) -> Any:
        digests = read_one(record_of(submissions[n])).digests
        assert digests is not None
        return digests.submission

    conflict = ("refused", "sequence_conflict", 1, None, None)
    assert fold_once(*submissions).outcomes == [
        OutcomeRow(0, "recorded", None, None, 0, None, digest(0)),
        OutcomeRow(2, "duplicate", None, None, 0, 1, None),
        OutcomeRow(3, *conflict, digest(3)),
        OutcomeRow(4, "refused", "missing", None, None, None, digest(4)),
        OutcomeRow(5, "refused", "not_found", None, None, None, None),
        OutcomeRow(6, "refused", "exists", None, None, None, None),
        OutcomeRow(7, "recorded", None, None, 0, None, None),
        OutcomeRow(8, *conflict, None),
    ]


@pytest.mark.parametrize("cuts", [[], [1]])
@pytest.mark.parametrize("retry_first", [False, True])
def test_a_retry_by_ones_own_id_makes_one_actum_whichever_arrives_first(
    cuts: list[int], retry_first: bool
) -> None:
    pair = [actum(id="s1", content="first"), actum(id="s9", key="s1", content="retry")]
    if retry_first:
        pair.reverse()
    postgres, _batches = record_in_batches(log_of(*pair), cuts)
    (stored,) = postgres.tables["acta"].values()
    (outcome,) = postgres.tables["outcomes"].values()
    assert stored.content == pair[0].content
    assert (outcome.outcome, outcome.chronicum, outcome.seq) == ("duplicate", 0, 1)


@pytest.mark.parametrize("cuts", [[], [1], [2], [1, 2]])
def test_a_conflict_stays_one_for_its_copies_and_leaves_its_key_free(cuts: list[int]) -> None:
    conflict = actum(id="s1", key="k", expected_seq=1)
    log = log_of(conflict, actum(id="s2"), conflict, actum(id="s3", key="k", expected_seq=1))
    postgres, _batches = record_in_batches(log, cuts)
    answers = [postgres.tables["outcomes"][0, offset] for offset in (0, 2)]
    assert [(a.reason, a.current_seq) for a in answers] == [("sequence_conflict", 0)] * 2
    assert [a.id for a in postgres.tables["acta"].values()] == ["s2", "s3"]


@pytest.mark.parametrize("cuts", [[], [1]])
def test_a_refusal_keeps_no_key_no_seq_and_no_chronicum(cuts: list[int]) -> None:
    log = log_of(actum(key="k", owner=None), actum(id="s2", key="k", owner="bob"))
    postgres, _batches = record_in_batches(log, cuts)
    (stored,) = postgres.tables["acta"].values()
    assert (stored.id, stored.seq) == ("s2", 1)
    (head,) = postgres.tables["chronica"].values()
    assert (head.owner, head.number) == ("bob", chronicum_number(0, 1))


def test_a_verdict_is_a_dead_letter_and_its_key_stays_free() -> None:
    state = PartitionState()
    reads = [read_one(r) for r in log_of(actum(key="k"), actum(id="s2", key="k"))]
    asked = wanted(state, reads)
    assert (asked.first_offset, asked.end_offset) == (0, 2)
    found = Found({}, {}, {}, {0: ("internal_error", "SQLSTATE 22000")})
    state.begin(asked.heads, found)
    batch = fold(state, reads, partition=0, next_offset=2)
    assert [(d.offset, d.reason, d.detail) for d in batch.dead_letters] == [
        (0, "internal_error", "SQLSTATE 22000")
    ]
    assert batch.dead_letters[0].value == reads[0].record.value
    assert [(a.id, a.seq) for a in batch.acta] == [("s2", 1)]


def test_a_batch_says_where_it_ends_and_by_what_the_log_is_known_again() -> None:
    log = log_of(actum(), POISON)
    _postgres, (batch,) = record_in_batches(log)
    assert (batch.next_offset, batch.last_offset, batch.last_timestamp_ms) == (2, 1, BEGIN_MS)
    assert batch.last_checksum == checksum(log[1])


def test_a_checksum_tells_key_and_value_apart() -> None:
    def of(key: bytes | None, value: bytes | None) -> bytes:
        return checksum(LogRecord(0, 0, key, value))

    assert len({of(b"ab", b"c"), of(b"a", b"bc"), of(b"", b"abc"), of(b"abc", b"")}) == 4


SUBMISSIONS = st.one_of(
    st.builds(
        actum,
        id=st.sampled_from(["s1", "s2", "s3", "k1"]),
        chronicum=st.sampled_from("abc"),
        owner=st.sampled_from(["ann", "ann", "bob", None]),
        key=st.sampled_from([None, "k1", "k2", "s1"]),
        expected_seq=st.sampled_from([None, None, 0, 1, 2]),
        content=st.sampled_from(["x", "y"]),
    ),
    st.builds(
        create,
        id=st.sampled_from(["s1", "c1", "c2"]),
        chronicum=st.sampled_from("abc"),
        owner=st.sampled_from(["ann", "bob"]),
    ),
    st.just(POISON),
)


@given(st.lists(SUBMISSIONS, min_size=1, max_size=25), st.data())
def test_a_batch_cut_anywhere_gives_the_same_rows(
    items: list[Submission | LogRecord], data: st.DataObject
) -> None:
    log = log_of(*items)
    cuts = data.draw(st.lists(st.integers(1, len(log)), max_size=len(log)))
    heads_max = data.draw(st.sampled_from([0, 1, 2, 50_000]), label="heads kept")
    whole, _batches = record_in_batches(log)
    cut, _batches = record_in_batches(log, cuts, heads_max)
    assert cut.tables == whole.tables
    assert replace(cut.claims[0], epoch=0) == replace(whole.claims[0], epoch=0)
    rows = sum(len(whole.tables[name]) for name in ("acta", "outcomes", "dead_letters"))
    assert rows == len(log), "each record has one row"
