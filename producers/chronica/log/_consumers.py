"""Stopping aiokafka's consumers."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer

__all__ = ["stop_consumer"]


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
