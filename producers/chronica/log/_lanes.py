"""All lanes of a writer over one producer: what to do next, decided without I/O.

The inputs are the methods; ``poll`` gives out what they led to. The rules:

- An answer counts only if it is to the very ``Send`` that is in flight; those of a producer that
  was replaced are stale.
- Whatever leaves the producer's sequence in doubt replaces the producer: every batch that failed,
  an offset below 0, no answer for long. The other lanes get a moment to hear what they have in
  flight; then every unresolved batch is sent again, in append order. Sending again is harmless: a
  submission carries its id.
- The queue is bounded over all lanes. Who finds it full waits in line, first come first served.
- While Kafka is silent, to one lane or to a producer that can't be replaced, what comes new is
  refused at once: its caller can do something better than wait. It ends with Kafka's next word.
- A deadline tells the caller what is true by then: never handed over, or unknown.
- A log that went back has lost what it acknowledged: then everything is refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum, auto

from chronica.log._errors import LogRefusedError
from chronica.log._lane import Acked, Effect, Lane, Limits, Place, Record, Replace, Send, Settle
from chronica.log._trouble import Failure, at_fault, denied, not_appended, unknown

__all__ = ["Lanes"]

_GRACE_S = 0.5
"""How long a replacement waits for the answers that other lanes have coming."""
_NO_ANSWER = "Kafka has not answered in time"
_UNCLEAR_MAX = 3
"""So often an answer that says nothing is taken for a passing one."""


class _Producer(Enum):
    READY = auto()
    DOUBTED = auto()
    STARTING = auto()
    GONE = auto()


class Lanes:
    """The state of a writer.

    Args:
        partitions: how many the topic has.
        topic: its name, for messages.
        limits: what bounds a batch.
        queue_bytes_max: what all queues and unresolved batches may hold together; one record
            fits into an empty queue, whatever its size.
        backoff: gives the wait before the n-th producer in a row (n from 1), in seconds.
    """

    def __init__(
        self,
        partitions: int,
        *,
        topic: str,
        limits: Limits,
        queue_bytes_max: int,
        backoff: Callable[[int], float],
    ) -> None:
        self.queued_bytes = 0
        self.queued_records = 0
        self.waiting: deque[Record] = deque()
        self._lanes = [Lane(partition, limits) for partition in range(partitions)]
        self._topic = topic
        self._limits = limits
        self._queue_bytes_max = queue_bytes_max
        self._backoff = backoff
        self._effects: list[Effect] = []
        self._producer = _Producer.READY
        self._failures = 0
        self._doubted_since = float("inf")
        self._replace_at = 0.0
        self._grace_until = 0.0
        self._trouble = _NO_ANSWER
        self._closed = False
        self._refused = ""

    # Inputs.

    def enqueue(self, record: Record, now: float) -> None:
        """Take a record; it is queued, waits in line, or is settled at once."""
        if self._refused:
            self._end(record, LogRefusedError(self._refused))
        elif self._closed:
            self._end(record, not_appended("the writer is stopped"))
        elif now - self._silent_since(record.partition) > self._limits.patience_s:
            self._end(record, not_appended(self._trouble))
        elif self.waiting or not self._fits(record):
            self.waiting.append(record)
        else:
            self._admit(record, now)

    def cancel(self, record: Record) -> None:
        """The caller waits no longer; a record that nobody has seen is dropped."""
        if record.settled:
            return
        record.settled = True
        if record.place is Place.WAITING:
            self.waiting.remove(record)
            record.place = Place.GONE
        elif record.place is Place.QUEUED:
            self._lanes[record.partition].drop(record)
            self._leave(record)

    def acked(self, send: Send, offset: int, now: float) -> None:
        """Kafka has the batch, its first record at ``offset``; below 0: it does not say where."""
        lane = self._lanes[send.partition]
        if lane.in_flight is not send:
            return
        if offset < 0:
            self._replace_wanted(now, "Kafka acknowledged without an offset")
            lane.recall()
        elif offset <= lane.offset_last:
            self.refuse(
                f"Partition {lane.partition} of {self._topic} went back to offset {offset} after "
                f"{lane.offset_last} had been acknowledged: the topic was truncated or made anew. "
                "What was appended lately may be lost: look at the topic before you write again."
            )
        else:
            self._failures, self._trouble = 0, _NO_ANSWER
            batch = lane.resolve()
            lane.offset_last = offset + len(batch.records) - 1
            self._left(batch.records, batch.size_bytes)
            self._effects.append(Acked(lane.partition, batch, offset))

    def failed(self, send: Send, failure: Failure, reason: str, now: float) -> None:
        """The producer gave the batch up. The sequence has advanced all the same."""
        lane = self._lanes[send.partition]
        if lane.in_flight is not send:
            return
        batch = send.batch
        if failure is Failure.UNCLEAR:
            batch.unclear += 1
        at_fault_in_it = failure is Failure.RECORD or batch.unclear >= _UNCLEAR_MAX
        if failure is Failure.DENIED or (at_fault_in_it and len(batch.records) == 1):
            self._give_up(lane, failure, reason)
        elif at_fault_in_it:
            lane.bisect(now)
        else:
            lane.recall()
        self._replace_wanted(now, reason, patient=failure is not Failure.RECORD)

    def replaced(self) -> None:
        """A new producer is there."""
        assert self._producer is _Producer.STARTING, "nobody asked for it"
        self._producer = _Producer.READY
        self._doubted_since = float("inf")

    def not_replaced(self, failure: Failure, reason: str, now: float) -> None:
        """The new producer could not be started."""
        assert self._producer is _Producer.STARTING, "nobody asked for it"
        self._replace_wanted(now, reason)
        if failure is Failure.DENIED:
            self._end_all(lambda record: denied(self._topic, record.retry_key, reason))

    def close(self) -> None:
        """Take no more records, and let none linger; those that wait in line are still taken."""
        self._closed = True

    def abandon(self) -> None:
        """Settle everything that is left: nothing more will be sent."""
        self._closed = True
        self._producer = _Producer.GONE
        reason = f"the writer was stopped ({self._trouble})"
        self._end_all(
            lambda record: (
                unknown(record.retry_key, reason)
                if record.place is Place.HANDED_OVER
                else not_appended(reason)
            )
        )

    def refuse(self, sentence: str) -> None:
        """Settle everything, now and from now on: the log is not what it was."""
        self._refused = sentence
        self._end_all(lambda _: LogRefusedError(sentence))

    # Outputs.

    def poll(self, now: float) -> list[Effect]:
        """Let time pass, and return what is to be done, in this order."""
        self._expire(now)
        while self.waiting and self._fits(self.waiting[0]):
            self._admit(self.waiting.popleft(), now)
        self._replace_if_due(now)
        if self._producer is _Producer.READY:
            for lane in self._lanes:
                send = lane.hand_over(now, at_once=self._closed)
                if send is not None:
                    self._effects.append(send)
        effects, self._effects = self._effects, []
        return effects

    def wake_at(self) -> float:
        """Return when ``poll`` has something to do even if nothing is heard; infinity if never."""
        ready = self._producer is _Producer.READY
        times = [lane.wake_at(sending=ready) for lane in self._lanes]
        if self.waiting:
            times.append(self.waiting[0].deadline)
        if self._producer is _Producer.DOUBTED:
            due = self._replace_at
            if any(lane.in_flight for lane in self._lanes):
                due = max(due, self._grace_until)
            times.append(due)
        return min(times)

    @property
    def idle(self) -> bool:
        """Whether nothing is queued, in line or unresolved."""
        return not self.queued_records and not self.waiting

    # How it is done.

    def _silent_since(self, partition: int) -> float:
        return min(self._doubted_since, self._lanes[partition].silent_since())

    def _fits(self, record: Record) -> bool:
        free = self._queue_bytes_max - self.queued_bytes
        return record.size_bytes <= free or not self.queued_records

    def _admit(self, record: Record, now: float) -> None:
        self.queued_bytes += record.size_bytes
        self.queued_records += 1
        self._lanes[record.partition].enqueue(record, now)

    def _leave(self, record: Record) -> None:
        self.queued_bytes -= record.size_bytes
        self.queued_records -= 1

    def _left(self, records: list[Record], size_bytes: int) -> None:
        self.queued_bytes -= size_bytes
        self.queued_records -= len(records)

    def _settle(self, record: Record, error: Exception) -> None:
        if not record.settled:
            record.settled = True
            self._effects.append(Settle(record, error))

    def _expire(self, now: float) -> None:
        for lane in self._lanes:
            for record in lane.expire(now):
                if record.place is Place.HANDED_OVER:
                    self._settle(record, unknown(record.retry_key, self._trouble))
                else:
                    self._leave(record)
                    self._settle(record, not_appended(self._trouble))
        while self.waiting and self.waiting[0].deadline <= now:
            self._end(self.waiting.popleft(), not_appended("the writer's queue stayed full"))

    def _replace_wanted(self, now: float, reason: str, *, patient: bool = True) -> None:
        self._trouble = reason
        if self._producer in (_Producer.DOUBTED, _Producer.GONE):
            return
        self._producer = _Producer.DOUBTED
        self._doubted_since = min(self._doubted_since, now)
        self._grace_until = now + _GRACE_S
        self._replace_at = now
        if patient:
            self._failures += 1
            self._replace_at += self._backoff(self._failures)

    def _replace_if_due(self, now: float) -> None:
        in_flight = [lane.in_flight for lane in self._lanes if lane.in_flight is not None]
        if any(send.sent_at + self._limits.stuck_after_s <= now for send in in_flight):
            self._replace_wanted(now, _NO_ANSWER)
            self._replace_at = self._grace_until = now
        if self._producer is not _Producer.DOUBTED or now < self._replace_at:
            return
        if in_flight and now < self._grace_until:
            return
        self._producer = _Producer.STARTING
        for lane in self._lanes:
            lane.recall()
        self._effects.append(Replace())

    def _give_up(self, lane: Lane, failure: Failure, reason: str) -> None:
        batch = lane.resolve()
        self._left(batch.records, batch.size_bytes)
        for record in batch.records:
            error: Exception
            if failure is Failure.DENIED:
                error = denied(self._topic, record.retry_key, reason)
            elif failure is Failure.RECORD:
                error = at_fault(record.size_bytes, self._topic, reason)
            else:
                error = unknown(record.retry_key, reason)
            self._settle(record, error)

    def _end(self, record: Record, error: Exception) -> None:
        record.place = Place.GONE
        self._settle(record, error)

    def _end_all(self, why: Callable[[Record], Exception]) -> None:
        for lane in self._lanes:
            for record in lane.clear():
                self._end(record, why(record))
        for record in self.waiting:
            self._end(record, why(record))
        self.waiting.clear()
        self.queued_bytes = self.queued_records = 0
