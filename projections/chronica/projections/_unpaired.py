"""``whole_calls`` for windows too long to hold: what it removes, from a pass over the calls."""

from __future__ import annotations

from array import array
from collections import deque
from hashlib import sha256
from heapq import merge
from typing import Final

from chronica.acta import ActumKind

__all__ = ["Unpaired"]

_SHORT: Final = 32  # code points; a longer call id is remembered by its digest


class Unpaired:
    """Finds the tool requests and responses without a partner, given all of them in order.

    The rule is that of ``chronica.acta.whole_calls``. Held are eight bytes for each call without
    an id or a partner, and some 200 for each request whose id waits for its response.
    """

    def __init__(self) -> None:
        # By call id: the request that waits, or several; a deque for each would weigh 700 bytes.
        self._waiting: dict[str | bytes, int | deque[int]] = {}
        self._alone = array("q")  # responses whose id no request before them has
        self._requests = array("q")  # without an id
        self._responses = array("q")  # likewise

    def add(self, seq: int, kind: str, call_id: str | None) -> None:
        """Take the next call; its seq is higher than that of the one before."""
        if kind == ActumKind.TOOL_REQUEST:
            if call_id is None:
                self._requests.append(seq)
            else:
                self._wait(seq, _short(call_id))
        elif call_id is None:
            self._responses.append(seq)
        else:
            self._answer(seq, _short(call_id))

    def _wait(self, seq: int, call_id: str | bytes) -> None:
        waiting = self._waiting.setdefault(call_id, seq)
        if isinstance(waiting, deque):
            waiting.append(seq)
        elif waiting != seq:
            self._waiting[call_id] = deque((waiting, seq))

    def _answer(self, seq: int, call_id: str | bytes) -> None:
        waiting = self._waiting.get(call_id)
        if waiting is None:
            self._alone.append(seq)
        elif isinstance(waiting, deque) and len(waiting) > 1:
            waiting.popleft()
        else:
            del self._waiting[call_id]

    def seqs(self) -> array[int]:
        """Return the seqs of those without a partner, ascending; all calls have been taken."""
        # The ids came first: what they have left over is free for responses without one.
        named = array("q")
        for waiting in self._waiting.values():
            named.extend(waiting if isinstance(waiting, deque) else (waiting,))
        named = array("q", sorted(named))
        requests = array("q", merge(self._requests, named))
        left, taken = array("q"), 0
        for response in self._responses:
            if taken < len(requests) and requests[taken] < response:
                taken += 1
            else:
                left.append(response)
        return array("q", merge(self._alone, requests[taken:], left))


def _short(call_id: str) -> str | bytes:
    if len(call_id) <= _SHORT:
        return call_id
    return sha256(call_id.encode(errors="surrogatepass")).digest()
