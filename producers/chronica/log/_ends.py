"""Where the log ends now: what a linearizable read waits for (rules 3.7)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Literal

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from chronica.log._consumers import start_consumer, stop_consumer
from chronica.log._errors import LogUnavailableError

__all__ = ["LogEnds"]


class LogEnds:
    """Asks the broker for high watermarks, one request for all who ask at a time.

    Args:
        client: keyword arguments of every aiokafka client.
        topic: full name of the topic.
        timeout_s: how long a request may take.
        isolation_level: ``read_committed`` ends before the first open transaction.
    """

    def __init__(
        self,
        client: Mapping[str, Any],
        topic: str,
        *,
        timeout_s: float = 5.0,
        isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
    ) -> None:
        self._client = {**client, "isolation_level": isolation_level}
        self._topic = topic
        self._timeout_s = timeout_s
        self._consumer: AIOKafkaConsumer | None = None
        self._asked: dict[int, asyncio.Future[int]] = {}
        self._asking: asyncio.Task[None] | None = None

    async def end(self, partition: int) -> int:
        """Return the offset after the last record that was acknowledged before this call.

        Records of open transactions count by default, since whoever was acknowledged outside of
        one may stand behind it.

        Raises:
            LogUnavailableError: the broker did not answer in time.
        """
        future = self._asked.get(partition)
        if future is None:
            future = asyncio.get_running_loop().create_future()
            self._asked[partition] = future
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        return await asyncio.shield(future)

    async def close(self) -> None:
        """Stop asking."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)
        await self._drop()

    async def _ask(self) -> None:
        """Answer everyone who asks: those that come during a request wait for the next one."""
        while self._asked:
            asked, self._asked = self._asked, {}
            places = {TopicPartition(self._topic, n): future for n, future in asked.items()}
            try:
                async with asyncio.timeout(self._timeout_s):
                    ends = await (await self._started()).end_offsets(list(places))
            except (KafkaError, OSError, TimeoutError) as error:
                await self._drop()
                words = (
                    f"Kafka does not say where the log ends ({type(error).__name__}): try again."
                )
                self._fail(asked, LogUnavailableError(words))
            except asyncio.CancelledError:
                self._fail(asked, LogUnavailableError("The reader is closing."))
                raise
            else:
                for place, future in places.items():
                    if not future.done():
                        future.set_result(int(ends[place]))

    @staticmethod
    def _fail(asked: Mapping[int, asyncio.Future[int]], error: LogUnavailableError) -> None:
        for future in asked.values():
            if not future.done():
                future.set_exception(error)
                future.exception()  # whoever asked may be gone: that is no fault

    async def _started(self) -> AIOKafkaConsumer:
        if self._consumer is None:
            timeout_ms = int(self._timeout_s * 1000)
            self._consumer = await start_consumer(
                AIOKafkaConsumer(**self._client, request_timeout_ms=timeout_ms)
            )
        return self._consumer

    async def _drop(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await stop_consumer(consumer)
