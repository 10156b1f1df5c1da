"""What the tests of the log need of a real Kafka: topics, a hang, and reading back."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.protocol.produce import ProduceRequest

from chronica.infra.embedded import EmbeddedKafka
from chronica.log import LogWriter


async def make_topic(
    client: Mapping[str, Any], name: str, partitions: int = 1, **settings: str
) -> str:
    """Make a topic whose settings the test chooses; underscores stand for dots."""
    admin = AIOKafkaAdminClient(**client)
    await admin.start()
    try:
        configs = {key.replace("_", "."): value for key, value in settings.items()}
        await admin.create_topics([NewTopic(name, partitions, 1, topic_configs=configs)])
    finally:
        await admin.close()
    return name


async def freeze(pid: int) -> None:
    """Stop a process, and return once every thread of it stands: one that runs still answers."""
    os.kill(pid, signal.SIGSTOP)
    async with asyncio.timeout(10):
        while _running_threads(pid):
            await asyncio.sleep(0.001)


def _running_threads(pid: int) -> list[str]:
    """Return the states of its threads that are not stopped; Linux only, elsewhere nothing."""
    states = []
    for thread in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            states.append(thread.read_text().rpartition(")")[2].split()[0])
    return [state for state in states if state not in "TtZX"]


@asynccontextmanager
async def paused(kafka: EmbeddedKafka) -> AsyncIterator[None]:
    """Kafka hangs: its connections stay open and nothing answers."""
    await freeze(kafka.pid)
    try:
        yield
    finally:
        os.kill(kafka.pid, signal.SIGCONT)
        # After seconds of silence the controller may count the broker as gone for a moment, so one
        # good answer does not yet mean that the next test finds it.
        answers = 0
        async with asyncio.timeout(60):
            while answers < 5:
                answers = answers + 1 if await asyncio.to_thread(kafka._ready) else 0
                await asyncio.sleep(0.1)


async def read_topic(client: Mapping[str, Any], topic: str) -> dict[tuple[int, int], bytes]:
    """Return every value of a topic by partition and offset."""
    consumer = AIOKafkaConsumer(**client, auto_offset_reset="earliest", enable_auto_commit=False)
    await consumer.start()
    try:
        numbers = await consumer._client._wait_on_metadata(topic)
        partitions = [TopicPartition(topic, number) for number in numbers]
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        ends = await consumer.end_offsets(partitions)
        values: dict[tuple[int, int], bytes] = {}
        for partition, end in ends.items():
            while await consumer.position(partition) < end:
                batch = await consumer.getmany(*partitions, timeout_ms=200)
                for messages in batch.values():
                    for message in messages:
                        values[(message.partition, message.offset)] = message.value
        return values
    finally:
        await consumer.stop()


def tamper(client: Any, change: Callable[[Any], None], *, times: int = 1) -> None:
    """Change the first answers to produce requests on their way to the producer."""
    send = client.send
    left = times

    async def tampered(node_id: int, request: Any, **options: Any) -> Any:
        nonlocal left
        response = await send(node_id, request, **options)
        if isinstance(request, ProduceRequest) and left:
            left -= 1
            change(response)
        return response

    client.send = tampered


def tamper_writer(writer: LogWriter, change: Callable[[Any], None], *, times: int = 1) -> None:
    """Change the first answers that the writer's present producer gets."""
    assert writer._running is not None
    producer = writer._running[0]._producer
    assert producer is not None
    tamper(producer._producer.client, change, times=times)
