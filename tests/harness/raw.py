"""What another producer could put into the ingress topic: any bytes, anywhere, in transactions."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.record import default_records
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy

from chronica.infra.settings import Settings
from chronica.log import MESSAGE_BYTES_MAX, partition_key, partition_of

__all__ = ["RawLog", "record_value"]

Headers = Sequence[tuple[str, bytes | None]]


def record_value(chronicum: str, content: str, **changes: Any) -> bytes:
    """Return a good version 1 record, with some fields changed; None takes a field away."""
    fields: dict[str, Any] = {
        "type": "actum",
        "version": 1,
        "tenant": "local",
        "chronicum": chronicum,
        "owner": "ardian",
        "kind": "message",
        "actor_kind": "human",
        "actor": "ardian",
        "payload": {"content": content},
    }
    fields |= changes
    return json.dumps({k: v for k, v in fields.items() if v is not None}).encode()


class RawLog:
    """The ingress topic, written to without any of our own code."""

    def __init__(self, settings: Settings, producer: AIOKafkaProducer) -> None:
        self._settings = settings
        self.topic = settings.acta_topic
        self.producer = producer

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: Settings, **options: Any) -> AsyncIterator[RawLog]:
        """Open a producer of a foreign kind."""
        producer = AIOKafkaProducer(
            **settings.kafka_client(), max_request_size=MESSAGE_BYTES_MAX, **options
        )
        async with producer:
            yield cls(settings, producer)

    def home(self, chronicum: str) -> int:
        """Return the partition that a chronicum belongs to."""
        return partition_of(partition_key("local", chronicum), self._settings.partitions)

    async def good(self, chronicum: str, content: str) -> int:
        """Append a good actum; return its offset."""
        return await self.put(chronicum, record_value(chronicum, content))

    async def put(
        self,
        chronicum: str,
        value: bytes | None,
        *,
        key: bytes | None = b"",
        partition: int | None = None,
        headers: Headers = (),
    ) -> int:
        """Append anything; by default with the right key, in the right partition."""
        sent = await self.producer.send_and_wait(
            self.topic,
            value,
            key=partition_key("local", chronicum) if key == b"" else key,
            partition=self.home(chronicum) if partition is None else partition,
            headers=list(headers),
        )
        return int(sent.offset)

    async def put_odd_header(self, chronicum: str, name: str) -> None:
        """Append a good actum with a header whose name encodes itself, to whatever bytes."""
        await self._put_built(chronicum, "odd", headers=[(name, b"odd")])

    async def put_with_trailing_bytes(self, chronicum: str, content: str) -> int:
        """Append a good actum in a gzip batch with bytes behind the compressed data."""
        with pytest.MonkeyPatch.context() as patch:
            encode = default_records.gzip_encode
            patch.setattr(default_records, "gzip_encode", lambda data: encode(data) + b"behind")
            return await self._put_built(chronicum, content, compression_type=1)

    async def _put_built(
        self,
        chronicum: str,
        content: str,
        *,
        headers: Headers = (),
        compression_type: int = 0,
    ) -> int:
        batch = self.producer.create_batch()
        # The builder in Python: the one in C asks neither a name nor a codec what to do.
        batch._builder = _DefaultRecordBatchBuilderPy(
            magic=2,
            compression_type=compression_type,
            is_transactional=0,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=0,
            batch_size=1 << 20,
        )
        batch.append(
            timestamp=None,
            key=partition_key("local", chronicum),
            value=record_value(chronicum, content),
            headers=list(headers),
        )
        batch.close()
        home = self.home(chronicum)
        sent = await (await self.producer.send_batch(batch, self.topic, partition=home))
        return int(sent.offset)

    async def end(self, partition: int) -> int:
        """Return the offset after the last record or mark of a partition."""
        consumer = AIOKafkaConsumer(**self._settings.kafka_client())
        await consumer.start()
        try:
            place = TopicPartition(self.topic, partition)
            return int((await consumer.end_offsets([place]))[place])
        finally:
            await consumer.stop()
