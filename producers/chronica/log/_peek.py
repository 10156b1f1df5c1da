"""One submission of the log, by its place: for whoever asks after a write of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from chronica.log._consumers import start_consumer, stop_consumer
from chronica.log._decode import decode_submission
from chronica.log._errors import LogUnavailableError
from chronica.log._record import InvalidRecordError, Submission
from chronica.log._topics import TopicFacts

__all__ = ["LogPeek"]

_SHORT_TOPIC = "acta"
_POLL_MS = 200


class LogPeek:
    """Reads single submissions, one at a time.

    Args:
        client: keyword arguments of every aiokafka client.
        facts: what the topic is.
        timeout_s: how long a look may take, waiting for others included.
    """

    def __init__(
        self, client: Mapping[str, Any], facts: TopicFacts, *, timeout_s: float = 5.0
    ) -> None:
        self._client = dict(client)
        self._facts = facts
        self._timeout_s = timeout_s
        self._consumer: AIOKafkaConsumer | None = None
        self._turn = asyncio.Lock()

    async def submission(self, partition: int, offset: int) -> Submission | None:
        """Return the submission at a place; None where there is none that can be decoded.

        Args:
            partition: of the topic.
            offset: below the partition's end.

        Raises:
            LogUnavailableError: Kafka does not answer in time.
        """
        try:
            async with asyncio.timeout(self._timeout_s), self._turn:
                record = await self._read(partition, offset)
        except (KafkaError, OSError, TimeoutError) as error:
            await self.close()
            raise LogUnavailableError(
                f"Kafka does not show the record ({type(error).__name__}): try again."
            ) from error
        if record is None:
            return None
        try:
            return decode_submission(
                record.key,
                record.value,
                topic=_SHORT_TOPIC,
                partition=partition,
                offset=offset,
                partitions=self._facts.partitions,
            )
        except InvalidRecordError:
            return None

    async def _read(self, partition: int, offset: int) -> Any:
        if self._consumer is None:
            self._consumer = await start_consumer(
                AIOKafkaConsumer(**self._client, enable_auto_commit=False, auto_offset_reset="none")
            )
        place = TopicPartition(self._facts.name, partition)
        self._consumer.assign([place])
        self._consumer.seek(place, offset)
        while True:
            try:
                polled = await self._consumer.getmany(place, timeout_ms=_POLL_MS, max_records=1)
            except OffsetOutOfRangeError:
                return None
            for record in polled.get(place, ()):
                # The place may be that of a transaction's mark: then the next record comes.
                return record if record.offset == offset else None

    async def close(self) -> None:
        """Stop reading."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await stop_consumer(consumer)
