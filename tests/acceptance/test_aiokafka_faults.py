"""Four faults of aiokafka 0.14: each shown on the bare producer first, then withstood by LogWriter.

When an update of aiokafka mends one, its first half fails here: then look whether LogWriter can do
with less.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import (
    DuplicateSequenceNumber,
    MessageSizeTooLargeError,
    OutOfOrderSequenceNumber,
)
from tests.fixtures_kafka import make_topic, paused, read_topic, tamper, tamper_writer

from chronica.acta import (
    ActorKind,
    Actum,
    ActumKind,
    AppendUnknownError,
    InvalidActumError,
    NotAppendedError,
)
from chronica.infra.embedded import EmbeddedKafka
from chronica.log import VALUE_BYTES_MAX, LogWriter


@pytest.fixture
def client(kafka: EmbeddedKafka) -> dict[str, Any]:
    return {"bootstrap_servers": kafka.bootstrap_servers}


def actum(content: str) -> Actum:
    return Actum(
        chronicum_id="dinner",
        kind=ActumKind.MESSAGE,
        actor_kind=ActorKind.HUMAN,
        actor="ardian",
        content=content,
    )


@asynccontextmanager
async def bare(client: dict[str, Any], **options: Any) -> AsyncIterator[AIOKafkaProducer]:
    async with AIOKafkaProducer(
        **client, acks="all", enable_idempotence=True, max_batch_size=2**20, **options
    ) as producer:
        yield producer


async def send_batch(producer: AIOKafkaProducer, topic: str, value: bytes) -> Any:
    batch = producer.create_batch()
    batch.append(key=b"k", value=value, timestamp=None)
    batch.close()
    return await producer.send_batch(batch, topic, partition=0)


# 1. The sequence advances for a batch that failed for good (aiokafka #1017).


async def test_bare_a_refused_batch_leaves_the_partition_out_of_order_for_ever(
    client: dict[str, Any], topic_prefix: str
) -> None:
    topic = await make_topic(client, f"{topic_prefix}.acta", max_message_bytes="5000")
    async with bare(client) as producer:
        await (await send_batch(producer, topic, b"first"))
        with pytest.raises(MessageSizeTooLargeError):
            await (await send_batch(producer, topic, b"x" * 10_000))
        for _ in range(3):
            with pytest.raises(OutOfOrderSequenceNumber):
                await (await send_batch(producer, topic, b"an innocent one"))


async def test_bare_the_broker_takes_any_sequence_from_a_producer_it_has_no_record_of(
    client: dict[str, Any], topic_prefix: str
) -> None:
    # So the fault hides when the refused batch is the first of its partition.
    topic = await make_topic(client, f"{topic_prefix}.acta", max_message_bytes="5000")
    async with bare(client) as producer:
        with pytest.raises(MessageSizeTooLargeError):
            await (await send_batch(producer, topic, b"x" * 10_000))
        assert (await (await send_batch(producer, topic, b"an innocent one"))).offset == 0


async def test_the_writer_goes_on_after_a_refused_batch(
    client: dict[str, Any], topic_prefix: str
) -> None:
    topic = await make_topic(client, f"{topic_prefix}.acta", max_message_bytes="5000")
    async with LogWriter(client, topic=topic, tenant="local") as writer:
        await writer.append("ardian", actum("first"))
        with pytest.raises(InvalidActumError, match=r"max\.message\.bytes"):
            await writer.append("ardian", actum("x" * 10_000))
        for number in range(3):
            position = await writer.append("ardian", actum("an innocent one"))
            assert position.entries[0].offset == 1 + number


# 2. Batches don't expire, and stop() hangs, while Kafka is away (aiokafka #1101).


async def test_bare_batches_do_not_expire_and_stop_hangs_while_kafka_hangs(
    client: dict[str, Any], topic_prefix: str, kafka: EmbeddedKafka
) -> None:
    topic = await make_topic(client, f"{topic_prefix}.acta")
    async with bare(client, request_timeout_ms=300) as producer:
        await (await send_batch(producer, topic, b"first"))
        async with paused(kafka):
            delivery = await send_batch(producer, topic, b"second")
            await asyncio.wait([delivery], timeout=1.5)
            assert not delivery.done(), "five times the request timeout, and no error"
            stopping = asyncio.ensure_future(producer.stop())
            await asyncio.wait([stopping], timeout=1.5)
            assert not stopping.done()
        await asyncio.wait_for(stopping, 30)
        assert (await delivery).offset == 1


async def test_the_writer_answers_and_stops_in_time_while_kafka_hangs(
    client: dict[str, Any], topic_prefix: str, kafka: EmbeddedKafka
) -> None:
    topic = await make_topic(client, f"{topic_prefix}.acta")
    writer = LogWriter(
        client, topic=topic, tenant="local", deadline_s=0.5, stop_s=2.0, request_timeout_s=0.5
    )
    async with writer:
        await writer.append("ardian", actum("first"))
        async with paused(kafka):
            first = asyncio.ensure_future(writer.append("ardian", actum("second")))
            await asyncio.sleep(0.05)
            started = time.monotonic()
            with pytest.raises(NotAppendedError, match="Nothing was recorded"):
                await writer.append("ardian", actum("third"))
            with pytest.raises(AppendUnknownError, match="not known"):
                await first
            assert time.monotonic() - started < 1.5
            started = time.monotonic()
            await writer.stop()
            assert time.monotonic() - started < 2.5


# 3. An offset of -1 can come back.


def say_duplicate(response: Any) -> None:
    """What a broker answers that has the batch and no longer knows where."""
    response.topics = [
        (
            topic,
            [(number, DuplicateSequenceNumber.errno, -1, *rest) for number, _, _, *rest in all_],
        )
        for topic, all_ in response.topics
    ]


def say_no_offset(response: Any) -> None:
    response.topics = [
        (topic, [(number, code, -1, *rest) for number, code, _, *rest in partitions])
        for topic, partitions in response.topics
    ]


@pytest.mark.parametrize("change", [say_duplicate, say_no_offset])
async def test_bare_an_answer_without_an_offset_is_a_success_at_offset_minus_one(
    client: dict[str, Any], topic_prefix: str, change: Callable[[Any], None]
) -> None:
    topic = await make_topic(client, f"{topic_prefix}.acta")
    async with bare(client) as producer:
        tamper(producer.client, change, times=1)
        assert (await (await send_batch(producer, topic, b"first"))).offset == -1


async def test_bare_kafka_4_itself_answers_an_old_duplicate_as_out_of_order(
    client: dict[str, Any], topic_prefix: str
) -> None:
    # It remembers five batches of each producer: their duplicates get the offset they had. Brokers
    # of before Kafka 1.1 or of other makers answer DuplicateSequenceNumber, without an offset.
    topic = await make_topic(client, f"{topic_prefix}.acta")
    async with bare(client) as producer:
        sequences = producer._txn_manager._sequence_numbers
        for number in range(7):
            assert (await (await send_batch(producer, topic, b"%d" % number))).offset == number
        sequences[TopicPartition(topic, 0)] = 6
        assert (await (await send_batch(producer, topic, b"6"))).offset == 6
        sequences[TopicPartition(topic, 0)] = 0
        with pytest.raises(OutOfOrderSequenceNumber):
            await (await send_batch(producer, topic, b"0"))


@pytest.mark.parametrize("change", [say_duplicate, say_no_offset])
async def test_the_writer_gives_a_real_offset_when_an_answer_has_none(
    client: dict[str, Any], topic_prefix: str, change: Callable[[Any], None]
) -> None:
    topic = await make_topic(client, f"{topic_prefix}.acta")
    async with LogWriter(client, topic=topic, tenant="local") as writer:
        tamper_writer(writer, change)
        position = await writer.append("ardian", actum("first"))
        offset = position.entries[0].offset
        assert offset >= 0
        assert b"first" in (await read_topic(client, topic))[(0, offset)]
        assert (await writer.append("ardian", actum("second"))).entries[0].offset > offset


# 4. send_batch checks no size.


async def test_bare_send_batch_sends_what_send_refuses_as_too_large(
    client: dict[str, Any], topic_prefix: str
) -> None:
    topic = await make_topic(client, f"{topic_prefix}.acta")
    async with bare(client, max_request_size=1000) as producer:
        with pytest.raises(MessageSizeTooLargeError):
            await producer.send(topic, b"x" * 5000)
        assert (await (await send_batch(producer, topic, b"x" * 5000))).offset == 0


async def test_the_writer_checks_the_size_before_it_queues(
    client: dict[str, Any], topic_prefix: str
) -> None:
    topic = await make_topic(client, f"{topic_prefix}.acta")
    async with LogWriter(client, topic=topic, tenant="local") as writer:
        with pytest.raises(InvalidActumError) as refused:
            await writer.append("ardian", actum("x" * VALUE_BYTES_MAX))
        assert refused.value.field == "content"
        assert str(VALUE_BYTES_MAX) in str(refused.value)
        assert writer.queued_records == 0
        assert await read_topic(client, topic) == {}
