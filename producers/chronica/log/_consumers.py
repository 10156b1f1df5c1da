"""Starting and stopping aiokafka's consumers."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer

__all__ = ["start_consumer", "stop_consumer"]


async def start_consumer(consumer: AIOKafkaConsumer) -> AIOKafkaConsumer:
    """Start a consumer and return it; one that can't be started, whyever, leaves nothing open."""
    try:
        await consumer.start()
    except BaseException:
        await stop_consumer(consumer)
        raise
    return consumer


async def stop_consumer(consumer: AIOKafkaConsumer) -> None:
    """Stop a consumer; what it cancels of its own doesn't cancel us.

    aiokafka awaits the fetches it has just cancelled. Without this a recorder that was frozen for a
    minute would wake up, close its consumers, and end as if it had been told to.
    """
    try:
        await consumer.stop()
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
