"""LogWriter against a user's own loop over aiokafka's ``send_batch``, idempotent, ``acks=all``.

Once against the whole of what such a loop does (make the JSON, the key and the partition, fill
batches), and once against records whose bytes are there already. LogWriter always makes its own,
validates every field, and knows at the end where each actum stands.
"""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.partitioner import murmur2
from tests.benchmarks.rows import Row, Spec, at_least, median
from tests.benchmarks.sample import OWNER, Acta, make_acta
from tests.benchmarks.stage import Stage

from chronica.acta import random_id
from chronica.infra.settings import Settings
from chronica.log import LogWriter

__all__ = ["SIZES", "SPECS", "measure"]

_ACTA = 100_000
_CHRONICA = 2_000
_REPETITIONS = 3
_BATCH_BYTES = 1024 * 1024
"""LogWriter's own default."""

_LOOP = Spec(
    "LogWriter.append_many", "acta/s", "aiokafka send_batch, making its bytes", at_least(0.5)
)
_READY = Spec(
    "LogWriter.append_many", "acta/s", "aiokafka send_batch, bytes made before", at_least(0.5)
)

SIZES = f"{_ACTA:,} acta in {_CHRONICA:,} chronica, median of {_REPETITIONS}"
SPECS = (_LOOP, _READY)

_Record = tuple[int, bytes, bytes]


def measure(stage: Stage) -> Iterator[Row]:
    """Append the same acta each way in turn, and yield a row for each peer."""
    acta = make_acta(stage.seed, stage.count(_ACTA), _CHRONICA)
    with stage.log() as settings:
        rates = asyncio.run(_rates(stage, settings, acta))
    ours, loop, ready = (median(values) for values in rates)
    yield _LOOP.measured(ours, loop)
    yield _READY.measured(ours, ready)


async def _rates(stage: Stage, settings: Settings, acta: Acta) -> list[list[float]]:
    """Return the rates of LogWriter, of the loop, and of the loop with bytes made before."""
    partitions = settings.partitions
    made = list(_records(acta, partitions))
    producer = AIOKafkaProducer(
        **settings.kafka_client(),
        enable_idempotence=True,
        acks="all",
        max_batch_size=_BATCH_BYTES,
        max_request_size=16 * _BATCH_BYTES,
    )
    writer = LogWriter(
        settings.kafka_client(), topic=settings.acta_topic, tenant="local", deadline_s=60.0
    )
    rates: list[list[float]] = [[], [], []]
    async with producer, writer:
        ways: tuple[Callable[[], Awaitable[None]], ...] = (
            lambda: _append(writer, acta),
            lambda: _send(producer, settings.acta_topic, _records(acta, partitions)),
            lambda: _send(producer, settings.acta_topic, made),
        )
        for number in range(1, _REPETITIONS + 1):
            stage.say(f"writer: repetition {number} of {_REPETITIONS}")
            for way, measured in zip(ways, rates, strict=True):
                gc.collect()
                started_s = time.monotonic()
                await way()
                measured.append(len(acta) / (time.monotonic() - started_s))
    return rates


async def _append(writer: LogWriter, acta: Acta) -> None:
    for answer in await writer.append_many(OWNER, acta):
        if isinstance(answer, Exception):
            raise answer


def _records(acta: Acta, partitions: int) -> Iterator[_Record]:
    """Make partition, key and value of each, as a user would who needs the same from his log."""
    for actum, idempotency_key in acta:
        key = json.dumps(["local", actum.chronicum_id]).encode()
        fields = {
            "type": "actum",
            "version": 1,
            "id": random_id(),
            "tenant": "local",
            "chronicum": actum.chronicum_id,
            "owner": OWNER,
            "key": idempotency_key,
            "kind": str(actum.kind),
            "actor_kind": str(actum.actor_kind),
            "actor": actum.actor,
            "payload": {
                "content": actum.content,
                "call_id": actum.call_id,
                "metadata": actum.metadata,
            },
        }
        partition = (murmur2(key) & 0x7FFFFFFF) % partitions
        yield partition, key, json.dumps(fields).encode()


async def _send(producer: AIOKafkaProducer, topic: str, records: Iterable[_Record]) -> None:
    """Fill a batch for each partition, send the full ones, and wait for all acknowledgements."""
    batches: dict[int, Any] = {}
    sent = []
    for partition, key, value in records:
        batch = batches.get(partition) or producer.create_batch()
        if batch.append(key=key, value=value, timestamp=None) is None:
            sent.append(await producer.send_batch(batch, topic, partition=partition))
            batch = producer.create_batch()
            batch.append(key=key, value=value, timestamp=None)
        batches[partition] = batch
    for partition, batch in batches.items():
        sent.append(await producer.send_batch(batch, topic, partition=partition))
    await asyncio.gather(*sent)
