"""Offsets committed to Kafka, for lag tools and nothing else: Postgres has the truth (rule 3.4)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from chronica.log import start_consumer, stop_consumer

__all__ = ["LagReport"]

_log = logging.getLogger("chronica.recorder")

_TIMEOUT_S = 5.0


class LagReport:
    """Commits how far the partitions are recorded, as a consumer group that reads nothing.

    Args:
        client: keyword arguments of every aiokafka client.
        topic: full name of the topic.
        group: the consumer group's name, as lag tools show it.
    """

    def __init__(self, client: Mapping[str, Any], topic: str, group: str) -> None:
        self._client = dict(client)
        self._topic = topic
        self._group = group
        self._consumer: AIOKafkaConsumer | None = None

    async def commit(self, offsets: Mapping[int, int]) -> None:
        """Commit next offsets by partition; a failure costs only a line in the log."""
        places = {TopicPartition(self._topic, n): offset for n, offset in offsets.items()}
        if not places:
            return
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                consumer = await self._assigned(places)
                await consumer.commit(places)
        except Exception as error:  # noqa: BLE001  (whatever it is, only a tool misses it)
            _log.info("lag not reported reason=%s", type(error).__name__)
            await self.close()

    async def _assigned(self, places: Mapping[TopicPartition, int]) -> AIOKafkaConsumer:
        if self._consumer is None:
            self._consumer = await start_consumer(
                AIOKafkaConsumer(**self._client, group_id=self._group, enable_auto_commit=False)
            )
        if self._consumer.assignment() != set(places):
            self._consumer.assign(list(places))
            self._consumer.pause(*places)
        return self._consumer

    async def close(self) -> None:
        """Leave."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await stop_consumer(consumer)
