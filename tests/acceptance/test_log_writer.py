"""LogWriter on a real Kafka: positions, order, deadlines, hangs, crashes, and its end."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import TopicAuthorizationFailedError
from tests.fixtures_kafka import make_topic, paused, read_topic, tamper_writer

from chronica.acta import (
    ActorKind,
    Actum,
    ActumKind,
    AppendUnknownError,
    EmptyOwnerIDError,
    InvalidActumError,
    InvalidIdempotencyKeyError,
    NotAppendedError,
)
from chronica.infra.embedded import EmbeddedKafka
from chronica.log import (
    LogRefusedError,
    LogUnavailableError,
    LogWriter,
    Position,
    Submission,
    decode_submission,
    encode_submission,
    inspect_topic,
    partition_key,
)


@pytest.fixture
def client(kafka: EmbeddedKafka) -> dict[str, Any]:
    return {"bootstrap_servers": kafka.bootstrap_servers}


@pytest.fixture
async def topic(client: dict[str, Any], topic_prefix: str) -> str:
    return await make_topic(client, f"{topic_prefix}.acta", partitions=4)


def actum(content: str, chronicum: str = "dinner", **fields: Any) -> Actum:
    return Actum(
        chronicum_id=chronicum,
        kind=ActumKind.MESSAGE,
        actor_kind=ActorKind.HUMAN,
        actor="ardian",
        content=content,
        **fields,
    )


def place(position: Position | Exception) -> tuple[int, int]:
    assert isinstance(position, Position), position
    (entry,) = position.entries
    assert entry.topic == "acta"
    return entry.partition, entry.offset


async def test_a_record_stands_at_its_position_with_all_that_was_given(
    client: dict[str, Any], topic: str
) -> None:
    facts = await inspect_topic(client, topic)
    assert facts is not None
    async with LogWriter(client, topic=topic, tenant="local", new_id=lambda: "id-1") as writer:
        given = actum("hello \ud800 \x00", metadata={"n": float("nan")}, id="theirs", call_id="c")
        position = await writer.append("ardian", given, idempotency_key="k", expected_seq=3)
        assert position.log_id == writer.log_id == facts.topic_id
    values = await read_topic(client, topic)
    partition, offset = place(position)
    submission = decode_submission(
        partition_key("local", "dinner"),
        values[(partition, offset)],
        topic="acta",
        partition=partition,
        offset=offset,
        partitions=4,
    )
    assert submission == Submission(
        type="actum",
        id="id-1",
        tenant="local",
        chronicum="dinner",
        owner="ardian",
        key="k",
        expected_seq=3,
        kind="message",
        actor_kind="human",
        actor="ardian",
        content="hello \ud800 \x00",
        call_id="c",
        metadata='{"n":NaN}',
    )


async def test_2000_concurrent_appends_stand_in_the_order_in_which_they_were_called(
    client: dict[str, Any], topic: str
) -> None:
    async with LogWriter(client, topic=topic, tenant="local") as writer:
        positions = await asyncio.gather(
            *(writer.append("ardian", actum(str(n), f"c{n % 7}")) for n in range(2000))
        )
    values = await read_topic(client, topic)
    assert len(values) == 2000
    for chronicum in range(7):
        places = [place(position) for position in positions[chronicum::7]]
        assert places == sorted(places)
        contents = [json.loads(values[at])["payload"]["content"] for at in places]
        assert contents == [str(n) for n in range(chronicum, 2000, 7)]


async def test_a_batch_form_answers_for_each_item_in_order(
    client: dict[str, Any], topic: str
) -> None:
    async with LogWriter(client, topic=topic, tenant="local") as writer:
        answers = await writer.append_many(
            "ardian",
            [(actum("a"), None), (actum(""), None), (actum("b"), ""), (actum("c"), "key")],
        )
        assert await writer.append_many("ardian", []) == []
        with pytest.raises(EmptyOwnerIDError):
            await writer.append("", actum("a"))
    assert isinstance(answers[1], InvalidActumError)
    assert isinstance(answers[2], InvalidIdempotencyKeyError)
    values = await read_topic(client, topic)
    contents = [json.loads(values[place(answers[n])])["payload"]["content"] for n in (0, 3)]
    assert contents == ["a", "c"]
    assert len(values) == 2


async def test_a_submission_is_appended_as_it_is(client: dict[str, Any], topic: str) -> None:
    submission = Submission(type="create", id="s", tenant="other", chronicum="c", owner="o")
    async with LogWriter(client, topic=topic, tenant="local") as writer:
        one = await writer.append_submission(submission)
        many = await writer.append_submissions([submission] * 3)
    values = await read_topic(client, topic)
    assert [values[place(p)] for p in (one, *many)] == [encode_submission(submission)] * 4


async def test_a_record_that_kafka_refuses_fails_alone_among_its_batch(
    client: dict[str, Any], topic_prefix: str
) -> None:
    topic = await make_topic(client, f"{topic_prefix}.acta", max_message_bytes="20000")
    async with LogWriter(client, topic=topic, tenant="local", linger_s=0.05) as writer:
        contents = [f"{n}".ljust(30_000 if n == 5 else 100) for n in range(12)]
        answers = await writer.append_many("ardian", [(actum(text), None) for text in contents])
        failed = answers.pop(5)
        assert isinstance(failed, InvalidActumError)
        assert "max.message.bytes" in str(failed)
        places = [place(answer) for answer in answers]
        assert places == sorted(places)
        await writer.append("ardian", actum("next"))
    assert len(await read_topic(client, topic)) == 12


async def test_a_hang_is_told_by_the_deadline_and_mends_itself(
    client: dict[str, Any], topic: str, kafka: EmbeddedKafka
) -> None:
    async with LogWriter(client, topic=topic, tenant="local", deadline_s=1.0) as writer:
        await writer.append("ardian", actum("before"))
        async with paused(kafka):
            first = asyncio.ensure_future(
                writer.append("ardian", actum("handed over"), idempotency_key="mine")
            )
            await asyncio.sleep(0.05)
            assert not first.done(), "Kafka hangs, so nothing is answered"
            started = time.monotonic()
            answers = await writer.append_many("ardian", [(actum("queued"), None)] * 3)
            assert time.monotonic() - started < 2.0
            assert [type(answer) for answer in answers] == [NotAppendedError] * 3
            with pytest.raises(AppendUnknownError) as unknown:
                await first
            assert unknown.value.retry_key == "mine"
            assert writer.queued_records == 1  # the lane goes on with what it handed over
        async with asyncio.timeout(10):
            while writer.queued_records:
                await asyncio.sleep(0.05)
            await writer.append("ardian", actum("after"))
    contents = [
        json.loads(value)["payload"]["content"]
        for _, value in sorted((await read_topic(client, topic)).items())
    ]
    assert contents == ["before", "handed over", "after"]


async def test_while_kafka_hangs_appends_are_refused_at_once_and_then_go_on_by_themselves(
    client: dict[str, Any], topic: str, kafka: EmbeddedKafka
) -> None:
    async with LogWriter(client, topic=topic, tenant="local", patience_s=0.5) as writer:
        await writer.append("ardian", actum("before"))
        async with paused(kafka):
            first = asyncio.ensure_future(writer.append("ardian", actum("handed over")))
            await asyncio.sleep(1.0)
            began = time.monotonic()
            for _ in range(100):
                with pytest.raises(NotAppendedError, match="has not answered"):
                    await writer.append("ardian", actum("refused"))
            assert time.monotonic() - began < 2.0
            assert not first.done(), "what was handed over keeps its deadline"
        await first
        await writer.append("ardian", actum("after"))
    contents = [
        json.loads(value)["payload"]["content"]
        for _, value in sorted((await read_topic(client, topic)).items())
    ]
    assert contents == ["before", "handed over", "after"]


async def test_a_crash_of_kafka_loses_and_reorders_nothing_that_was_acknowledged(
    client: dict[str, Any], topic: str, kafka: EmbeddedKafka
) -> None:
    answers: list[Position | Exception] = []

    async def append_on_and_on(writer: LogWriter, until: asyncio.Event) -> None:
        number = 0
        while not until.is_set():
            answers.extend(
                await writer.append_many(
                    "ardian", [(actum(str(number + n)), None) for n in range(20)]
                )
            )
            number += 20
            await asyncio.sleep(0.005)

    writer = LogWriter(
        client, topic=topic, tenant="local", deadline_s=60, patience_s=60, request_timeout_s=2
    )
    async with writer:
        until = asyncio.Event()
        appending = asyncio.ensure_future(append_on_and_on(writer, until))
        await asyncio.sleep(0.5)
        await kafka.kill()
        await kafka.start()
        await asyncio.sleep(0.5)
        until.set()
        async with asyncio.timeout(30):
            await appending
    values = await read_topic(client, topic)
    places = [place(answer) for answer in answers]
    assert places == sorted(places)
    for number, at in enumerate(places):
        assert json.loads(values[at])["payload"]["content"] == str(number)


async def test_stop_delivers_what_is_queued(client: dict[str, Any], topic: str) -> None:
    async with LogWriter(client, topic=topic, tenant="local", linger_s=60) as writer:
        appending = [asyncio.ensure_future(writer.append("o", actum(str(n)))) for n in range(50)]
        await asyncio.sleep(0.01)
    positions = await asyncio.gather(*appending)
    assert len({place(position) for position in positions}) == 50
    with pytest.raises(NotAppendedError, match="stopped"):
        await writer.append("o", actum("late"))
    with pytest.raises(NotAppendedError, match="stopped"):
        raise (await writer.append_many("o", [(actum("late"), None)] * 2))[1]  # type: ignore[misc]
    await writer.stop()


@pytest.mark.parametrize("big", [False, True])
async def test_stop_is_bounded_while_kafka_hangs_and_every_caller_is_told(
    client: dict[str, Any], topic: str, kafka: EmbeddedKafka, *, big: bool
) -> None:
    content = "x" * (8_000_000 if big else 1)  # more than the socket's buffers, or less
    writer = LogWriter(client, topic=topic, tenant="local", stop_s=1.0)
    await writer.start()
    await writer.append("o", actum("before"))
    async with paused(kafka):
        first = asyncio.ensure_future(writer.append("o", actum(content)))
        await asyncio.sleep(0.1)
        second = asyncio.ensure_future(writer.append("o", actum(content)))
        await asyncio.sleep(0.1)
        started = time.monotonic()
        await asyncio.gather(writer.stop(), writer.stop())
        assert time.monotonic() - started < 1.5
        with pytest.raises(AppendUnknownError, match="stopped"):
            await first
        with pytest.raises(NotAppendedError, match="stopped"):
            await second
    gc.collect()  # whatever was left open would warn now, and warnings are errors
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_stop_is_bounded_while_a_new_producer_is_being_started(
    client: dict[str, Any], topic: str, kafka: EmbeddedKafka
) -> None:
    writer = LogWriter(
        client, topic=topic, tenant="local", stop_s=1.0, deadline_s=0.5, request_timeout_s=0.3
    )
    await writer.start()
    async with paused(kafka):
        with pytest.raises(AppendUnknownError):
            await writer.append("o", actum("a"))
        await asyncio.sleep(1.2)  # three request timeouts: the producer is given up
        started = time.monotonic()
        await writer.stop()
        assert time.monotonic() - started < 1.5
    gc.collect()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_writer_whose_producer_was_given_up_comes_back_by_itself(
    client: dict[str, Any], topic: str, kafka: EmbeddedKafka
) -> None:
    writer = LogWriter(client, topic=topic, tenant="local", deadline_s=0.5, request_timeout_s=0.3)
    async with writer:
        async with paused(kafka):
            with pytest.raises(AppendUnknownError):
                await writer.append("o", actum("a"))
            await asyncio.sleep(1.5)
        async with asyncio.timeout(15):
            while writer.queued_records:
                await asyncio.sleep(0.05)
            await writer.append("o", actum("b"))
    values = await read_topic(client, topic)
    assert {json.loads(value)["payload"]["content"] for value in values.values()} == {"a", "b"}


async def test_a_cancelled_append_that_was_not_handed_over_is_dropped(
    client: dict[str, Any], topic: str, kafka: EmbeddedKafka
) -> None:
    async with LogWriter(client, topic=topic, tenant="local") as writer:
        async with paused(kafka):
            handed_over = asyncio.ensure_future(writer.append("o", actum("handed over")))
            await asyncio.sleep(0.05)
            queued = [asyncio.ensure_future(writer.append("o", actum(str(n)))) for n in range(3)]
            many = asyncio.ensure_future(writer.append_many("o", [(actum("many"), None)] * 3))
            await asyncio.sleep(0.05)
            for task in (handed_over, queued[1], many):
                task.cancel()
            await asyncio.sleep(0.05)
            assert writer.queued_records == 3
        await asyncio.gather(queued[0], queued[2])
        assert (writer.queued_records, writer.queued_bytes) == (0, 0)
    contents = [
        json.loads(value)["payload"]["content"]
        for _, value in sorted((await read_topic(client, topic)).items())
    ]
    assert contents == ["handed over", "0", "2"]


async def test_a_full_queue_makes_appends_wait_and_then_fail_by_their_deadline(
    client: dict[str, Any], topic: str, kafka: EmbeddedKafka
) -> None:
    writer = LogWriter(client, topic=topic, tenant="local", deadline_s=1.0, queue_bytes_max=10_000)
    async with writer:
        async with paused(kafka):
            started = time.monotonic()
            answers = await writer.append_many("o", [(actum("x" * 1000), None)] * 50)
            assert time.monotonic() - started < 3.0
            assert writer.queued_bytes <= 10_000
            assert any("queue stayed full" in str(answer) for answer in answers)
            assert all(isinstance(a, (NotAppendedError, AppendUnknownError)) for a in answers)
        async with asyncio.timeout(10):
            while writer.queued_records:
                await asyncio.sleep(0.05)
        answers = await writer.append_many("o", [(actum("x" * 1000), None)] * 50)
        assert all(isinstance(answer, Position) for answer in answers)


async def test_a_writer_that_may_not_write_says_so_and_goes_on_when_it_may(
    client: dict[str, Any], topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(response: Any) -> None:
        response.topics = [
            (
                name,
                [
                    (number, TopicAuthorizationFailedError.errno, -1, *rest)
                    for number, _, _, *rest in p
                ],
            )
            for name, p in response.topics
        ]

    async with LogWriter(client, topic=topic, tenant="local") as writer:
        tamper_writer(writer, deny)
        with pytest.raises(LogRefusedError, match="grant it Write"):
            await writer.append("o", actum("a"))
        await writer.append("o", actum("b"))

    async def denied(_: Any) -> None:
        raise TopicAuthorizationFailedError(topic)

    monkeypatch.setattr(AIOKafkaProducer, "partitions_for", lambda self, _: denied(self))
    with pytest.raises(LogRefusedError, match="grant it Write"):
        await LogWriter(client, topic=topic, tenant="local").start()
    gc.collect()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_missing_topic_is_refused_and_an_absent_kafka_is_unavailable(
    client: dict[str, Any], topic_prefix: str
) -> None:
    with pytest.raises(LogRefusedError, match="no topic"):
        await LogWriter(client, topic=f"{topic_prefix}.acta", tenant="local").start()
    absent = LogWriter({"bootstrap_servers": "127.0.0.1:1"}, topic="t.acta", tenant="local")
    with pytest.raises(LogUnavailableError):
        await absent.start()
    await absent.stop()
    with pytest.raises(RuntimeError, match="Start the writer"):
        await absent.append("o", actum("a"))
