"""What drives ``Lanes``: the event loop's alarm, the tasks that send, the producer of the moment.

Everything runs in the one event loop in which the engine was started. Nothing is decided here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from chronica.log._answers import Answers
from chronica.log._encoder import Encoded
from chronica.log._lane import Acked, Record, Send, Settle
from chronica.log._lanes import Lanes
from chronica.log._positions import Entry, Position
from chronica.log._producer import Producer
from chronica.log._topics import TopicFacts
from chronica.log._trouble import classify, describe

__all__ = ["Engine"]

_log = logging.getLogger(__name__)

_Tasks = set["asyncio.Task[None]"]


class Engine:
    """Runs the lanes of one topic.

    Args:
        topic: what the topic is.
        lanes: its lanes.
        producer: the first producer, started.
        new_producer: makes one more, not started.
        clock: monotonic seconds.
        deadline_s: how long an append may take.
    """

    def __init__(
        self,
        topic: TopicFacts,
        lanes: Lanes,
        producer: Producer,
        new_producer: Callable[[], Producer],
        clock: Callable[[], float],
        deadline_s: float,
    ) -> None:
        self.topic = topic
        self.lanes = lanes
        self._short_topic = topic.name.rpartition(".")[2]
        self._producer: Producer | None = producer
        self._new_producer = new_producer
        self._clock = clock
        self._deadline_s = deadline_s
        self._loop = asyncio.get_running_loop()
        self._deliveries: _Tasks = set()
        self._replacements: _Tasks = set()
        self._closings: _Tasks = set()
        self._flush_is_due = False
        self._flush_waiters: list[asyncio.Future[None]] = []
        self._alarm: asyncio.TimerHandle | None = None

    def enqueue(self, answers: Answers, encoded: Encoded) -> Record:
        """Take a record; its answer goes to ``answers``."""
        now = self._clock()
        record = Record(
            encoded.partition,
            encoded.key,
            encoded.value,
            now + self._deadline_s,
            encoded.retry_key,
            answers,
            answers.expect(),
        )
        self.lanes.enqueue(record, now)
        self._flush_soon()
        return record

    def cancel(self, records: Iterable[Record]) -> None:
        """Nobody waits for these any more."""
        for record in records:
            self.lanes.cancel(record)
        self._flush_soon()

    async def next_flush(self) -> None:
        """Wait until the lanes have done something."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._flush_waiters.append(waiter)
        await waiter

    async def stop(self, stop_s: float) -> None:
        """Deliver what can be delivered, settle the rest, and close everything, in this time."""
        closing_s = min(1.0, stop_s / 4)
        self.lanes.close()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(stop_s - closing_s):
                    await self._drain()
        finally:
            self.lanes.abandon()
            self._flush()
            await self._close(closing_s)

    async def _drain(self) -> None:
        while True:
            self._flush()
            if self.lanes.idle:
                return
            await self.next_flush()

    async def _close(self, timeout_s: float) -> None:
        for task in (*self._deliveries, *self._replacements):
            task.cancel()
        if self._producer is not None:
            self._spawn(self._producer.close(timeout_s), self._closings)
        tasks = {*self._deliveries, *self._replacements, *self._closings}
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s)

    def _flush_soon(self) -> None:
        # Once in a turn of the loop: what is appended in one turn goes together.
        if not self._flush_is_due:
            self._flush_is_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_is_due = False
        for effect in self.lanes.poll(self._clock()):
            if isinstance(effect, Send):
                self._spawn(self._deliver(effect), self._deliveries)
            elif isinstance(effect, Acked):
                self._give_positions(effect)
            elif isinstance(effect, Settle):
                effect.record.waiter.put(effect.record.index, effect.error)
            else:
                self._spawn(self._replace(), self._replacements)
        for waiter in self._flush_waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._flush_waiters.clear()
        self._set_alarm()

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        wait_s = self.lanes.wake_at() - self._clock()
        if wait_s < float("inf"):
            self._alarm = self._loop.call_later(max(0.0, wait_s), self._flush)

    def _spawn(self, work: Coroutine[Any, Any, None], tasks: _Tasks) -> None:
        task = self._loop.create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def _give_positions(self, acked: Acked) -> None:
        topic, partition, log_id = self._short_topic, acked.partition, self.topic.topic_id
        for offset, record in enumerate(acked.batch.records, acked.offset):
            if not record.settled:
                record.settled = True
                place = Entry(topic, partition, offset)
                record.waiter.put(record.index, Position(log_id, (place,)))

    async def _deliver(self, send: Send) -> None:
        assert self._producer is not None, "lanes send only while there is a producer"
        try:
            offset = await self._producer.send(send.partition, send.batch.records)
        except Exception as error:  # noqa: BLE001  (whatever it was, the lane must know)
            reason = describe(error)
            _log.warning("Partition %d of %s: %s", send.partition, self.topic.name, reason)
            self.lanes.failed(send, classify(error), reason, self._clock())
        else:
            self.lanes.acked(send, offset, self._clock())
        self._flush()

    async def _replace(self) -> None:
        for task in self._deliveries:
            task.cancel()
        if self._producer is not None:
            self._spawn(self._producer.close(), self._closings)
            self._producer = None
        producer = self._new_producer()
        try:
            await producer.start()
        except Exception as error:  # noqa: BLE001  (whatever it was, it is tried again)
            reason = describe(error)
            _log.warning("No new producer for %s: %s", self.topic.name, reason)
            self.lanes.not_replaced(classify(error), reason, self._clock())
        else:
            self._producer = producer
            self.lanes.replaced()
        self._flush()
