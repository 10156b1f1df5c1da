"""The latest events of one chronicum, shared by all who follow it. Pure.

A reader keeps nothing but the seq it has come to, so one that is slow costs nothing: it takes from
here what is still here, and reads the rest from Postgres.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

__all__ = ["Channel", "Event"]


class Event(NamedTuple):
    """One actum, encoded once for all readers."""

    seq: int
    data: bytes


class Channel:
    """A ring of the events up to ``last_seq``, without a gap.

    Args:
        last_seq: what has been recorded of the chronicum already.
        events_max: how many it keeps.
        bytes_max: nor more bytes; but the last one, whatever its size.
    """

    def __init__(self, last_seq: int, *, events_max: int, bytes_max: int) -> None:
        self.last_seq = last_seq
        self._events_max = events_max
        self._bytes_max = bytes_max
        self._events: deque[Event] = deque()
        self._size_bytes = 0

    def add(self, event: Event) -> None:
        """Take the next event in; the oldest go.

        Raises:
            AssertionError: it is not the next one: the order is the promise (rule 3.8).
        """
        assert event.seq == self.last_seq + 1, "seqs are contiguous"
        self.last_seq = event.seq
        self._events.append(event)
        self._size_bytes += len(event.data)
        while len(self._events) > 1 and (
            len(self._events) > self._events_max or self._size_bytes > self._bytes_max
        ):
            self._size_bytes -= len(self._events.popleft().data)

    def after(self, seq: int) -> list[Event] | None:
        """Return the events after a seq; None if some of them are not here any more."""
        if seq >= self.last_seq:
            return []
        if not self._events or seq + 1 < self._events[0].seq:
            return None
        start = seq + 1 - self._events[0].seq
        return [self._events[n] for n in range(start, len(self._events))]
