"""Where `chronica import` reads lines from: a file, plain or gzip, a pipe, or standard input."""

from __future__ import annotations

import asyncio
import gzip
import io
import os
import select
import threading
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._terminal import CommandError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = ["STANDARD_INPUT", "Source", "UnreadableError", "opened"]

STANDARD_INPUT = Path("-")

_GZIP_FIRST_BYTE = b"\x1f"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_CANCELLED_POLL_S = 0.2


class UnreadableError(CommandError):
    """The lines can't be read to their end; ``str()`` has no full stop: say what was kept."""


class Source:
    """The lines of something opened; iterates once.

    Args:
        name: what the user calls it.
        stream: its bytes, unpacked.
        lines_total: None when it can be read only once.
        cancelled: ends a read that waits; None where reads never wait for others.
    """

    def __init__(
        self,
        name: str,
        stream: io.BufferedReader,
        *,
        lines_total: int | None = None,
        cancelled: threading.Event | None = None,
    ) -> None:
        self.lines_total = lines_total
        self._name = name
        self._stream = stream
        self._cancelled = cancelled

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield each line, without a byte order mark.

        Raises:
            UnreadableError: it is damaged, or gone.
        """
        mark = _BYTE_ORDER_MARK
        try:
            with _understood(self._name):
                while line := await self._next():
                    yield line.removeprefix(mark)
                    mark = b""
        finally:
            if self._cancelled is not None:
                self._cancelled.set()

    async def _next(self) -> bytes:
        if self._cancelled is None:
            return self._stream.readline()
        # Whoever writes to a pipe may take its time; what is under way goes on meanwhile.
        return await asyncio.to_thread(self._stream.readline)


class _Waiting(io.FileIO):
    """Reads a pipe until it is cancelled: nobody else can end a read that waits."""

    def __init__(self, file: Path | int, cancelled: threading.Event) -> None:
        super().__init__(file)
        self._cancelled = cancelled

    def readinto(self, buffer: WriteableBuffer, /) -> int | None:
        """Read what is there; 0 at the end, and when it was cancelled."""
        while not self._cancelled.is_set():
            if select.select([self], [], [], _CANCELLED_POLL_S)[0]:
                return super().readinto(buffer)
        return 0


@contextmanager
def opened(file: Path) -> Iterator[Source]:
    """Open lines; gzip is known by its first byte, not by the file's name.

    A file that can be read twice is read once before, so that a damaged one is refused before
    anything is recorded. The ``with`` must last longer than the event loop that reads.

    Raises:
        UnreadableError: it can't be read.
    """
    name = "Standard input" if file == STANDARD_INPUT else str(file)
    again = file.is_file() and file != STANDARD_INPUT
    cancelled = threading.Event()
    with ExitStack() as stack:
        stack.callback(cancelled.set)
        with _understood(name):
            if again:
                raw = stack.enter_context(file.open("rb"))
                lines_total = sum(1 for _line in _unpacked(raw))
                raw.seek(0)
                source = Source(name, _unpacked(raw), lines_total=lines_total)
            else:
                # A descriptor of its own, so that closing it leaves standard input alone.
                place = os.dup(0) if file == STANDARD_INPUT else file
                waiting = io.BufferedReader(stack.enter_context(_Waiting(place, cancelled)))
                source = Source(name, _unpacked(waiting), cancelled=cancelled)
        yield source


def _unpacked(raw: io.BufferedReader[Any]) -> io.BufferedReader:
    # No line begins with this byte; a pipe may give no more than one.
    if raw.peek(1)[:1] == _GZIP_FIRST_BYTE:
        return io.BufferedReader(gzip.GzipFile(fileobj=raw))
    return raw


@contextmanager
def _understood(name: str) -> Iterator[None]:
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UnreadableError(f"{name} is damaged ({error})") from error
    except OSError as error:
        raise UnreadableError(f"{name} can't be read ({error.strerror or error})") from error
