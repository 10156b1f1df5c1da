"""The recorder's work on a partition, step by step: what it asks for, and what it makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.harness.steps import Refusing
from tests.harness.submissions import actum, record_of

from chronica.log import LogRefusedError, LogUnavailableError
from chronica.projections import (
    Batch,
    ClaimLostError,
    ClaimRow,
    Found,
    PostgresUnavailableError,
)
from chronica.recorder import Limits
from chronica.recorder._fold import LogRecord, checksum
from chronica.recorder._state import PartitionState
from chronica.recorder._work import (
    Abandon,
    Claim,
    Fetch,
    Fetched,
    Identify,
    Identity,
    LookUp,
    Steps,
    Write,
    work,
)

FRESH = ClaimRow(1, 0, 1, 0, -1, -1, b"")
EMPTY = Found({}, {}, {}, {})


def records(count: int, start: int = 0) -> list[LogRecord]:
    return [record_of(actum(id=f"s{n}"), n) for n in range(start, start + count)]


def claim_after(record: LogRecord) -> ClaimRow:
    """Return the claim of a partition that is recorded up to this record."""
    return ClaimRow(
        1, 0, 1, record.offset + 1, record.offset, record.timestamp_ms, checksum(record)
    )


def started(
    claim: ClaimRow = FRESH, *, limits: Limits | None = None, state: PartitionState | None = None
) -> Steps:
    """Return the work at its first fetch."""
    steps = work("acta", 1, limits or Limits(), state or PartitionState())
    assert next(steps) == Claim()
    assert steps.send(claim) == Identify(claim.last_offset)
    end = Identity(None, 1000)
    assert steps.send(end) == Fetch(claim.next_offset)
    return steps


def seqs(written: Sequence[Batch]) -> list[tuple[int, int]]:
    return [(a.offset, a.seq) for batch in written for a in batch.acta]


# the identity of the log


def test_a_partition_that_another_holds_is_left_alone() -> None:
    steps = work("acta", 1, Limits(), PartitionState())
    assert next(steps) == Claim()
    with pytest.raises(StopIteration):
        steps.send(None)


def test_an_untouched_partition_is_read_from_its_beginning() -> None:
    steps = work("acta", 1, Limits(), PartitionState())
    next(steps)
    assert steps.send(FRESH) == Identify(-1)
    assert steps.send(Identity(None, 0)) == Fetch(0)


def test_a_log_that_is_the_one_recorded_is_read_on() -> None:
    (record,) = records(1, start=6)
    steps = work("acta", 1, Limits(), PartitionState())
    next(steps)
    assert steps.send(claim_after(record)) == Identify(6)
    assert steps.send(Identity(record, 7)) == Fetch(7)


def refusal(claim: ClaimRow, identity: Identity) -> str:
    steps = work("acta", 1, Limits(), PartitionState())
    next(steps)
    steps.send(claim)
    with pytest.raises(LogRefusedError) as refused:
        steps.send(identity)
    return str(refused.value)


def test_a_truncated_log_is_refused() -> None:
    (record,) = records(1, start=6)
    sentence = refusal(claim_after(record), Identity(record, 6))
    assert "Partition 0 of acta ends at offset 6, but 7 offsets of it are recorded" in sentence
    assert "Nothing was changed" in sentence


def test_an_emptied_log_is_refused_even_if_only_marks_were_passed() -> None:
    assert "ends at offset 0" in refusal(replace(FRESH, next_offset=3), Identity(None, 0))


RECORD = record_of(actum(), 6)


@pytest.mark.parametrize(
    "found",
    [
        None,
        replace(RECORD, value=b"{}"),
        replace(RECORD, key=b'["t","lunch"]'),
        replace(RECORD, timestamp_ms=RECORD.timestamp_ms + 1),
    ],
    ids=["none", "another value", "another key", "another time"],
)
def test_a_recreated_log_is_refused(found: LogRecord | None) -> None:
    sentence = refusal(claim_after(RECORD), Identity(found, 100))
    assert "holds another record at offset 6 than the one that was recorded" in sentence


# batches


def test_what_was_fetched_is_looked_up_and_written_in_one_batch() -> None:
    steps = started()
    log = records(3)
    look_up = steps.send(Fetched(log, 3))
    assert isinstance(look_up, LookUp)
    assert (look_up.wanted.first_offset, look_up.wanted.end_offset) == (0, 3)
    write = steps.send(EMPTY)
    assert isinstance(write, Write)
    assert (write.claim, write.expected_offset, write.batch.next_offset) == (FRESH, 0, 3)
    assert seqs([write.batch]) == [(0, 1), (1, 2), (2, 3)]
    assert steps.send(None) == Fetch(3)


def test_nothing_fetched_writes_nothing() -> None:
    assert started().send(Fetched([], 0)) == Fetch(0)


def test_the_position_moves_when_only_the_marks_of_transactions_came() -> None:
    (record,) = records(1, start=6)
    claim = claim_after(record)
    steps = work("acta", 1, Limits(), PartitionState())
    next(steps)
    steps.send(claim)
    steps.send(Identity(record, 9))
    write = steps.send(Fetched([], 9))
    assert write == Write(claim, 7, Batch(9, 6, record.timestamp_ms, checksum(record)))
    assert steps.send(None) == Fetch(9)


def test_the_marks_behind_the_last_record_are_passed_with_its_batch() -> None:
    steps = started()
    postgres = Refusing()
    assert postgres.until_fetch(steps, steps.send(Fetched(records(2), 5))) == Fetch(5)
    assert [(b.next_offset, b.last_offset) for b in postgres.written] == [(5, 1)]


def test_a_batch_has_so_many_records_at_most() -> None:
    steps = started(limits=Limits(records_max=3))
    postgres = Refusing()
    assert postgres.until_fetch(steps, steps.send(Fetched(records(8), 9))) == Fetch(9)
    assert [len(b.acta) for b in postgres.written] == [3, 3, 2]
    assert [b.next_offset for b in postgres.written] == [3, 6, 9]
    assert seqs(postgres.written) == [(n, n + 1) for n in range(8)]


@pytest.mark.parametrize(
    ("spare", "sizes"), [(0, [2, 2, 1]), (-1, [1, 1, 1, 1, 1]), (1, [2, 2, 1])]
)
def test_a_batch_has_so_many_bytes_at_most(spare: int, sizes: list[int]) -> None:
    log = records(5)
    size = len(log[0].value or b"")
    steps = started(limits=Limits(bytes_max=2 * size + spare))
    postgres = Refusing()
    postgres.until_fetch(steps, steps.send(Fetched(log, 5)))
    assert [len(b.acta) for b in postgres.written] == sizes


def test_a_record_larger_than_a_batch_is_a_batch_alone() -> None:
    log = records(3)
    log[1] = record_of(actum(id="s1", content="x" * 1000), 1)
    steps = started(limits=Limits(bytes_max=600))
    postgres = Refusing()
    assert postgres.until_fetch(steps, steps.send(Fetched(log, 3))) == Fetch(3)
    assert [b.next_offset for b in postgres.written] == [1, 2, 3]


# data that Postgres refuses


@pytest.mark.parametrize("refused", range(9))
def test_one_record_that_postgres_refuses_is_pinned_and_its_neighbours_are_recorded(
    refused: int,
) -> None:
    steps = started()
    postgres = Refusing(refused)
    assert postgres.until_fetch(steps, steps.send(Fetched(records(9), 9))) == Fetch(9)
    assert postgres.verdicts == {refused: ("internal_error", "SQLSTATE 22000: no")}
    good = [n for n in range(9) if n != refused]
    assert seqs(postgres.written) == [(n, seq) for seq, n in enumerate(good, start=1)]
    letters = [d for b in postgres.written for d in b.dead_letters]
    assert [(d.offset, d.reason) for d in letters] == [(refused, "internal_error")]
    assert len(postgres.tries) <= 12, "by halves, not one by one"


def test_every_refused_record_has_its_own_verdict() -> None:
    steps = started()
    postgres = Refusing(0, 3, 4, 7)
    assert postgres.until_fetch(steps, steps.send(Fetched(records(8), 8))) == Fetch(8)
    assert sorted(postgres.verdicts) == [0, 3, 4, 7]
    assert seqs(postgres.written) == [(1, 1), (2, 2), (5, 3), (6, 4)]


def test_a_half_batch_ends_where_the_next_begins_and_the_last_passes_the_marks() -> None:
    steps = started()
    log = [record_of(actum(id=f"s{n}"), n) for n in (0, 5)]
    postgres = Refusing(5)
    assert postgres.until_fetch(steps, steps.send(Fetched(log, 9))) == Fetch(9)
    assert [b.next_offset for b in postgres.written] == [5, 9]


def test_a_verdict_that_is_pinned_already_is_used_and_not_pinned_again() -> None:
    steps = started()
    postgres = Refusing(1)
    postgres.verdicts[1] = ("internal_error", "pinned before")
    postgres.until_fetch(steps, steps.send(Fetched(records(3), 3)))
    assert postgres.verdicts == {1: ("internal_error", "pinned before")}
    assert postgres.tries == [3]


def test_a_dead_letter_that_is_refused_too_is_waited_out() -> None:
    steps = started()
    step = Refusing(1, letters_too=True).until_fetch(steps, steps.send(Fetched(records(3), 3)))
    assert isinstance(step, Abandon)
    assert isinstance(step.error, PostgresUnavailableError)
    assert "the dead letter at offset 1" in str(step.error)
    assert steps.send(None) == Claim()


@pytest.mark.parametrize(
    "error", [ClaimLostError("x"), PostgresUnavailableError("x"), LogUnavailableError("x")]
)
def test_after_a_failure_everything_is_forgotten_and_the_partition_claimed_anew(
    error: Exception,
) -> None:
    state = PartitionState()
    steps = started(state=state)
    look_up = steps.send(Fetched(records(1), 1))
    assert isinstance(look_up, LookUp)
    (digest,) = look_up.wanted.heads
    steps.send(EMPTY)
    assert state.unknown([digest]) == ()
    assert steps.throw(error) == Abandon(1, error)
    assert steps.send(None) == Claim()
    assert state.unknown([digest]) == (digest,), "it may not have been written"
    # Whatever became of the batch, the claim says where to go on.
    (record,) = records(1)
    claim = replace(claim_after(record), epoch=2)
    assert steps.send(claim) == Identify(0)
    assert steps.send(Identity(record, 1)) == Fetch(1)


@pytest.mark.parametrize("after", range(5))
def test_a_failure_of_any_step_is_survived(after: int) -> None:
    steps = work("acta", 1, Limits(), PartitionState())
    answers: list[Any] = [FRESH, Identity(None, 1), Fetched(records(1), 1), EMPTY]
    next(steps)
    for answer in answers[:after]:
        steps.send(answer)
    step = steps.throw(PostgresUnavailableError("away"))
    assert isinstance(step, Abandon)
    assert steps.send(None) == Claim()


def test_failures_in_a_row_are_counted_until_something_was_recorded() -> None:
    steps = work("acta", 1, Limits(), PartitionState())
    next(steps)
    for failures in (1, 2, 3):
        error = PostgresUnavailableError("away")
        assert steps.throw(error) == Abandon(failures, error)
        assert steps.send(None) == Claim()
    steps.send(FRESH)
    steps.send(Identity(None, 1))
    assert Refusing().until_fetch(steps, steps.send(Fetched(records(1), 1))) == Fetch(1)
    error = PostgresUnavailableError("away")
    assert steps.throw(error) == Abandon(1, error)
