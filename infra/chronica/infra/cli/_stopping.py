"""Ctrl-C and SIGTERM: the first asks to stop, the second to hurry."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Stop", "stop_on_signals"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """What the signals have asked for so far.

    Attributes:
        asked: set by the first signal.
        hurry: set by the second.
    """

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.hurry = asyncio.Event()

    def ask(self) -> None:
        """Take one more signal."""
        (self.hurry if self.asked.is_set() else self.asked).set()


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """Take the signals for as long as the ``with`` lasts; inside a running event loop."""
    stop = Stop()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, stop.ask)
    try:
        yield stop
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
