"""The rules of the writer's lanes, one sentence each."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka import errors

from chronica.acta import AppendUnknownError, InvalidActumError, NotAppendedError
from chronica.log._errors import LogRefusedError
from chronica.log._lane import Acked, Effect, Limits, Place, Record, Replace, Send, Settle
from chronica.log._lanes import Lanes
from chronica.log._trouble import Failure, classify, describe


def lanes(partitions: int = 2, *, queue_bytes_max: int = 10_000, **limits: Any) -> Lanes:
    return Lanes(
        partitions,
        topic="t.acta",
        limits=Limits(**limits),
        queue_bytes_max=queue_bytes_max,
        backoff=lambda attempt: 0.0 if attempt == 1 else float(attempt),
    )


def record(name: str = "a", *, partition: int = 0, deadline: float = 10.0, size: int = 0) -> Record:
    return Record(partition, b"k", name.encode().ljust(size), deadline, f"key-{name}", None)


def enqueue(state: Lanes, *names: str, now: float = 0.0, **options: Any) -> list[Record]:
    records = [record(name, **options) for name in names]
    for each in records:
        state.enqueue(each, now)
    return records


def sends(effects: list[Effect]) -> list[Send]:
    return [effect for effect in effects if isinstance(effect, Send)]


def send(state: Lanes, now: float = 0.0) -> Send:
    (only,) = sends(state.poll(now))
    return only


def names(batch: Send) -> list[str]:
    return [each.value.decode().strip() for each in batch.batch.records]


def errors_of(effects: list[Effect]) -> list[Exception]:
    return [effect.error for effect in effects if isinstance(effect, Settle)]


def replaces(effects: list[Effect]) -> bool:
    return any(isinstance(effect, Replace) for effect in effects)


def test_what_was_queued_while_a_batch_was_on_its_way_forms_the_next_one() -> None:
    state = lanes()
    enqueue(state, "a")
    first = send(state)
    enqueue(state, "b", "c")
    assert state.poll(1.0) == []
    state.acked(first, 0, 1.0)
    assert names(send(state, 1.0)) == ["b", "c"]


def test_partitions_do_not_wait_for_each_other() -> None:
    state = lanes()
    enqueue(state, "a")
    enqueue(state, "b", partition=1)
    assert [each.partition for each in sends(state.poll(0.0))] == [0, 1]


def test_a_batch_has_no_more_records_and_bytes_than_allowed_and_a_large_record_goes_alone() -> None:
    state = lanes(batch_records_max=2, batch_bytes_max=300)
    enqueue(state, "a", "b", "c")
    enqueue(state, "large", size=1000)
    enqueue(state, "d")
    batches = []
    for offset in (0, 2, 3, 4):
        batch = send(state)
        batches.append(names(batch))
        state.acked(batch, offset, 0.0)
    assert batches == [["a", "b"], ["c"], ["large"], ["d"]]


def test_a_lingering_batch_is_sent_when_its_time_has_come_or_it_is_full_or_the_writer_closes() -> (
    None
):
    state = lanes(linger_s=1.0, batch_records_max=3)
    enqueue(state, "a", "b")
    assert state.poll(0.5) == []
    assert state.wake_at() == 1.0
    batch = send(state, 1.0)
    state.acked(batch, 0, 1.0)
    enqueue(state, "c", "d", "e", now=2.0)
    batch = send(state, 2.0)
    state.acked(batch, 2, 2.0)
    enqueue(state, "f", now=3.0)
    state.close()
    assert names(send(state, 3.0)) == ["f"]


def test_an_ack_says_where_the_batch_stands() -> None:
    state = lanes()
    records = enqueue(state, "a", "b")
    batch = send(state)
    state.acked(batch, 7, 0.0)
    (acked,) = state.poll(0.0)
    assert isinstance(acked, Acked)
    assert (acked.partition, acked.offset, acked.batch.records) == (0, 7, records)
    assert state.idle
    assert state.queued_bytes == 0


def test_a_record_that_nobody_has_seen_by_its_deadline_was_not_appended() -> None:
    state = lanes()
    enqueue(state, "a")
    batch = send(state)
    enqueue(state, "b", deadline=11.0)
    assert state.wake_at() == 10.0
    state.poll(10.0)
    (error,) = errors_of(state.poll(11.0))
    assert isinstance(error, NotAppendedError)
    state.acked(batch, 0, 11.0)
    assert sends(state.poll(11.0)) == []


def test_a_record_that_was_handed_over_is_unknown_by_its_deadline_and_goes_on() -> None:
    state = lanes()
    enqueue(state, "a")
    batch = send(state)
    (error,) = errors_of(state.poll(10.0))
    assert isinstance(error, AppendUnknownError)
    assert error.retry_key == "key-a"
    state.failed(batch, Failure.DOUBT, "trouble", 10.0)
    assert replaces(state.poll(10.0))
    state.replaced()
    assert names(send(state, 10.0)) == ["a"]


def test_what_fails_for_an_unknown_reason_is_sent_again_before_what_is_queued() -> None:
    state = lanes()
    enqueue(state, "a", "b")
    batch = send(state)
    enqueue(state, "c")
    state.failed(batch, Failure.DOUBT, "trouble", 0.0)
    effects = state.poll(0.0)
    assert replaces(effects)
    assert not sends(effects)
    state.replaced()
    again = send(state)
    assert names(again) == ["a", "b"]
    state.acked(again, 0, 0.0)
    assert names(send(state)) == ["c"]


def test_a_new_producer_sends_the_unresolved_batches_of_all_lanes_again() -> None:
    state = lanes()
    enqueue(state, "a")
    enqueue(state, "b", partition=1)
    first, _ = sends(state.poll(0.0))
    state.failed(first, Failure.DOUBT, "trouble", 0.0)
    assert state.poll(0.0) == []  # the other one has a moment to hear its answer
    assert replaces(state.poll(state.wake_at()))
    state.replaced()
    assert [names(each) for each in sends(state.poll(1.0))] == [["a"], ["b"]]


def test_a_replacement_waits_no_longer_when_all_answers_have_come() -> None:
    state = lanes()
    enqueue(state, "a")
    enqueue(state, "b", partition=1)
    first, second = sends(state.poll(0.0))
    state.failed(first, Failure.DOUBT, "trouble", 0.0)
    state.acked(second, 0, 0.1)
    assert replaces(state.poll(0.1))


def test_the_answers_of_a_replaced_producer_are_stale() -> None:
    state = lanes()
    enqueue(state, "a")
    old = send(state)
    state.failed(old, Failure.DOUBT, "trouble", 0.0)
    state.poll(0.0)
    state.replaced()
    new = send(state)
    state.acked(old, 3, 0.0)
    state.failed(old, Failure.RECORD, "trouble", 0.0)
    assert state.poll(0.0) == []
    state.acked(new, 4, 0.0)
    (acked,) = state.poll(0.0)
    assert isinstance(acked, Acked)
    assert acked.offset == 4


def test_producers_in_a_row_come_after_longer_and_longer_waits_until_one_works() -> None:
    state = lanes()
    enqueue(state, "a", deadline=99.0)
    state.failed(send(state), Failure.DOUBT, "trouble", 0.0)
    assert replaces(state.poll(0.0))
    state.not_replaced(Failure.DOUBT, "trouble", 1.0)
    assert not replaces(state.poll(2.9))
    assert state.wake_at() == 3.0
    assert replaces(state.poll(3.0))
    state.replaced()
    state.acked(send(state, 3.0), 0, 3.0)
    enqueue(state, "b", deadline=99.0, now=3.0)
    state.failed(send(state, 3.0), Failure.DOUBT, "trouble", 3.0)
    assert replaces(state.poll(3.0))


def test_an_ack_without_an_offset_is_no_position() -> None:
    state = lanes()
    enqueue(state, "a")
    state.acked(send(state), -1, 0.0)
    assert replaces(state.poll(0.0))
    state.replaced()
    assert names(send(state)) == ["a"]


def test_a_batch_without_an_answer_for_long_gets_a_new_producer() -> None:
    state = lanes(stuck_after_s=5.0)
    enqueue(state, "a")
    send(state)
    assert state.wake_at() == 5.0
    assert replaces(state.poll(5.0))


def test_the_one_record_at_fault_fails_alone_and_the_order_of_the_others_stays() -> None:
    state = lanes()
    enqueue(state, "a", "b", "bad", "c", "d")
    enqueue(state, "e")
    written: list[str] = []
    failed: list[Exception] = []
    while not state.idle:
        effects = state.poll(0.0)
        failed += errors_of(effects)
        if replaces(effects):
            state.replaced()
        for batch in sends(effects):
            if "bad" in names(batch):
                state.failed(batch, Failure.RECORD, "over the limit", 0.0)
            else:
                written += names(batch)
                state.acked(batch, len(written) - len(batch.batch.records), 0.0)
    failed += errors_of(state.poll(0.0))
    assert written == ["a", "b", "c", "d", "e"]
    (error,) = failed
    assert isinstance(error, InvalidActumError)
    assert "over the limit" in str(error)


def test_an_answer_that_says_nothing_is_tried_three_times_and_the_record_stays_unknown() -> None:
    state = lanes()
    enqueue(state, "a", deadline=99.0)
    effects = state.poll(0.0)
    for attempt in range(3):
        (batch,) = sends(effects)
        state.failed(batch, Failure.UNCLEAR, "error 87", 0.0)
        effects = state.poll(state.wake_at() if attempt else 0.0)
        assert replaces(effects)
        if attempt < 2:
            state.replaced()
            effects = state.poll(0.0)
    (error,) = errors_of(effects)
    assert isinstance(error, AppendUnknownError)
    assert state.idle


def test_a_writer_that_may_not_write_says_so() -> None:
    state = lanes()
    enqueue(state, "a", "b")
    state.failed(send(state), Failure.DENIED, "TopicAuthorizationFailedError", 0.0)
    enqueue(state, "c")
    effects = state.poll(0.0)
    assert [type(error) for error in errors_of(effects)] == [LogRefusedError] * 2
    assert replaces(effects)
    state.not_replaced(Failure.DENIED, "ClusterAuthorizationFailedError", 0.0)
    (error,) = errors_of(state.poll(0.0))
    assert isinstance(error, LogRefusedError)
    assert "grant" in str(error)


def test_a_full_queue_lets_wait_first_come_first_served() -> None:
    state = lanes(partitions=1, queue_bytes_max=200)
    enqueue(state, "large", size=1000)  # into an empty queue, whatever its size
    large = send(state)
    b, c = enqueue(state, "b", "c", size=50)
    assert b.place is c.place is Place.WAITING
    assert state.queued_records == 1
    state.acked(large, 0, 0.0)
    assert names(send(state)) == ["b"]  # c does not fit beside it
    assert c.place is Place.WAITING


def test_who_waits_for_room_until_the_deadline_was_not_appended() -> None:
    state = lanes(queue_bytes_max=100)
    enqueue(state, "a", deadline=99.0)
    send(state)
    enqueue(state, "b", deadline=1.0, partition=1)
    (error,) = errors_of(state.poll(1.0))
    assert isinstance(error, NotAppendedError)
    assert "full" in str(error)


def test_a_cancelled_record_is_dropped_unless_it_was_handed_over() -> None:
    state = lanes(queue_bytes_max=150)
    (a,) = enqueue(state, "a")
    batch = send(state)
    b, c = enqueue(state, "b", "c")
    assert c.place is Place.WAITING
    for each in (a, b, c):
        state.cancel(each)
        state.cancel(each)
    assert state.queued_records == 1
    assert state.poll(20.0) == []
    state.acked(batch, 0, 0.0)
    state.poll(0.0)
    assert state.idle


def test_a_stopped_writer_tells_everyone_what_is_true_and_wants_nothing_more() -> None:
    state = lanes(queue_bytes_max=150)
    enqueue(state, "a")
    batch = send(state)
    enqueue(state, "b", "c")
    state.abandon()
    enqueue(state, "d")
    kinds = [type(error) for error in errors_of(state.poll(0.0))]
    assert kinds == [AppendUnknownError, *[NotAppendedError] * 3]
    state.acked(batch, 0, 0.0)
    state.failed(batch, Failure.DOUBT, "trouble", 0.0)
    assert state.poll(99.0) == []
    assert state.wake_at() == float("inf")


def test_a_log_that_went_back_is_refused_for_good() -> None:
    state = lanes()
    enqueue(state, "a")
    state.acked(send(state), 5, 0.0)
    enqueue(state, "b")
    batch = sends(state.poll(0.0))[0]
    state.acked(batch, 0, 0.0)
    enqueue(state, "c", partition=1)
    refused = errors_of(state.poll(0.0))
    assert [type(error) for error in refused] == [LogRefusedError] * 2
    assert "went back to offset 0 after 5" in str(refused[0])


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (errors.MessageSizeTooLargeError(), Failure.RECORD),
        (errors.TopicAuthorizationFailedError("t"), Failure.DENIED),
        (errors.UnknownError(), Failure.UNCLEAR),
        (errors.for_code(87)(), Failure.UNCLEAR),
        (errors.OutOfOrderSequenceNumber(), Failure.DOUBT),
        (errors.ProducerFenced(), Failure.DOUBT),
        (errors.UnknownProducerId(), Failure.DOUBT),
        (errors.NotLeaderForPartitionError(), Failure.DOUBT),
        (TimeoutError(), Failure.DOUBT),
        (KeyError("whatever"), Failure.DOUBT),
    ],
)
def test_an_error_of_kafkas_means(error: Exception, failure: Failure) -> None:
    assert classify(error) is failure
    assert type(error).__name__ in describe(error)


def test_what_comes_while_kafka_is_silent_is_refused_at_once() -> None:
    state = lanes(patience_s=2.0)
    enqueue(state, "a")
    first = send(state)
    (waits,) = enqueue(state, "b", now=2.0)
    (refused,) = enqueue(state, "c", now=2.1)
    (elsewhere,) = enqueue(state, "d", partition=1, now=2.1)
    assert [waits.place, refused.place, elsewhere.place] == [Place.QUEUED, Place.GONE, Place.QUEUED]
    (error,) = errors_of(state.poll(2.1))
    assert isinstance(error, NotAppendedError)
    state.acked(first, 0, 3.0)
    assert names(send(state, 3.0)) == ["b"]
    (taken,) = enqueue(state, "e", now=4.0)
    assert taken.place is Place.QUEUED, "Kafka's word ends it"


def test_what_comes_while_no_producer_can_be_had_is_refused_at_once() -> None:
    state = lanes(patience_s=2.0)
    enqueue(state, "a")
    state.failed(send(state), Failure.DOUBT, "gone", 0.0)
    now = 0.0
    while now < 3.0:
        assert replaces(state.poll(now))
        state.not_replaced(Failure.DOUBT, "gone", now)
        now = state.wake_at()
    (refused,) = enqueue(state, "b", partition=1, now=now)
    assert refused.place is Place.GONE
    assert replaces(state.poll(now))
    state.replaced()
    (taken,) = enqueue(state, "c", partition=1, now=now)
    assert taken.place is Place.QUEUED


def test_a_batch_that_kafka_refuses_is_an_answer_and_no_silence() -> None:
    state = lanes(patience_s=2.0)
    enqueue(state, "a", "b")
    state.failed(send(state), Failure.RECORD, "too large", 5.0)
    assert replaces(state.poll(5.0))
    state.replaced()
    (taken,) = enqueue(state, "c", now=6.0)
    assert taken.place is Place.QUEUED
