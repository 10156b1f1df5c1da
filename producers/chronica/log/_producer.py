"""One AIOKafkaProducer, used up and closed as a whole.

aiokafka's idempotent producer retries by itself for ever and in order; what it gives up has
advanced its sequence, so it is replaced after any error. Its own ``stop()`` waits for batches that
can't be delivered, so it is closed from the inside, which is why this module knows its private
parts; the version is pinned for that.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aiokafka import AIOKafkaProducer

from chronica.log._lane import Record

__all__ = ["Producer"]

# Our lanes bound a batch; aiokafka's own bound must never split what they decided.
_UNBOUNDED: Final = 2**30
_CANCEL_ROUNDS: Final = 20


class Producer:
    """An idempotent producer of one topic.

    Args:
        client: keyword arguments of every aiokafka client.
        topic: full name.
        request_timeout_s: after so long without an answer aiokafka sends again.
    """

    def __init__(self, client: Mapping[str, Any], topic: str, request_timeout_s: float) -> None:
        self._topic = topic
        self._start_timeout_s = 3 * request_timeout_s
        self._requests: set[asyncio.Task[Any]] = set()
        self._transports: weakref.WeakSet[asyncio.WriteTransport] = weakref.WeakSet()
        self._producer = AIOKafkaProducer(
            **client,
            acks="all",
            enable_idempotence=True,
            max_batch_size=_UNBOUNDED,
            request_timeout_ms=int(request_timeout_s * 1000),
        )
        self._track()

    def _track(self) -> None:
        # The sender keeps its requests in a local variable, and the client forgets a connection
        # that it has given up. While Kafka hangs neither ends by itself, and what is left of them
        # would be found by the garbage collector.
        sender, client = self._producer._sender, self._producer.client  # noqa: SLF001
        send_produce_request, get_connection = sender._send_produce_req, client._get_conn  # noqa: SLF001

        async def tracked_request(*args: Any) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._requests.add(task)
            try:
                await send_produce_request(*args)
            finally:
                self._requests.discard(task)

        async def tracked_connection(*args: Any, **options: Any) -> Any:
            connection = await get_connection(*args, **options)
            if connection is not None and connection.connected():
                self._transports.add(connection._writer.transport)  # noqa: SLF001
            return connection

        sender._send_produce_req = tracked_request  # noqa: SLF001
        client._get_conn = tracked_connection  # noqa: SLF001

    async def start(self) -> None:
        """Connect, get a producer id, and learn the topic's partitions.

        Raises:
            KafkaError, OSError, TimeoutError: it did not work; nothing is left open.
        """
        try:
            # Without a bound the wait for a producer id would go on for ever.
            async with asyncio.timeout(self._start_timeout_s):
                await self._producer.start()
                await self._producer.partitions_for(self._topic)
        except BaseException:
            await self.close()
            raise

    async def send(self, partition: int, records: Sequence[Record]) -> int:
        """Send one batch, and return the offset of its first record once it is acknowledged.

        The caller sends no other batch to the partition meanwhile.
        """
        builder = self._producer.create_batch()
        for record in records:
            added = builder.append(key=record.key, value=record.value, timestamp=None)
            assert added is not None, "the lane bounds its batches"
        builder.close()
        acked = await self._producer.send_batch(builder, self._topic, partition=partition)
        return int((await acked).offset)

    async def close(self, timeout_s: float = 2.0) -> None:
        """End it, whatever it is doing; what it has not delivered is its caller's to send again."""
        producer = self._producer
        producer._closed = True  # noqa: SLF001  (else its finaliser warns)
        sender_task = producer._sender.sender_task  # noqa: SLF001
        for _ in range(_CANCEL_ROUNDS):
            # The sender waits for its requests when it is cancelled: they have to end as well, and
            # one that had not run yet is known only after it has.
            tasks = {task for task in (sender_task, *self._requests) if task and not task.done()}
            if not tasks:
                break
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=timeout_s / 2 / _CANCEL_ROUNDS)
        for transport in self._transports:
            # Closing politely waits until a hung Kafka has read what is still in the buffer.
            transport.abort()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s / 2):
                await producer.client.close()
