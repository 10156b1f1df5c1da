"""Request bodies: read whole, within limits that hold for the bytes really read.

Two limits: of one body, as sent and decompressed (a compressed body may be a thousand times what it
was), and of all bodies that this process has in hand, so that many large ones at once wait or are
refused, and never take the machine's memory.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Final

from fastapi import HTTPException, Request

__all__ = ["BODY_BYTES_MAX", "Bodies", "Budget", "Inflater"]

BODY_BYTES_MAX: Final = 24 * 1024 * 1024
"""Largest request body, in bytes, as read and as decompressed."""

_WAIT_S = 1.0
_PIECE_BYTES = 256 * 1024
_GZIP_WINDOW: Final = 31  # zlib's: a gzip header, and the largest window


class Budget:
    """So many bytes for all who share it; nobody is woken before there is room.

    Args:
        bytes_max: how many.
    """

    def __init__(self, bytes_max: int) -> None:
        self._free_bytes = bytes_max
        self._freed = asyncio.Event()

    @property
    def free_bytes(self) -> int:
        """What is left."""
        return self._free_bytes

    async def take(self, size_bytes: int, wait_s: float) -> bool:
        """Take so many bytes, waiting for them at most so long; tell whether they were to be had.

        Args:
            size_bytes: how many.
            wait_s: how long to wait for others to give theirs back.
        """
        try:
            async with asyncio.timeout(wait_s):
                while size_bytes > self._free_bytes:
                    self._freed.clear()
                    await self._freed.wait()
        except TimeoutError:
            return False
        self._free_bytes -= size_bytes
        return True

    def give(self, size_bytes: int) -> None:
        """Give so many bytes back."""
        self._free_bytes += size_bytes
        self._freed.set()


class Inflater:
    """A gzip stream in pieces: fed as it comes, never more than a piece ahead. Pure."""

    def __init__(self) -> None:
        self._inflater = zlib.decompressobj(_GZIP_WINDOW)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield what the next bytes of the stream decompress to, in bounded pieces.

        Raises:
            ValueError: it is not gzip.
        """
        while data:
            if self._inflater.eof:  # a gzip file may have several members
                self._inflater = zlib.decompressobj(_GZIP_WINDOW)
            try:
                piece = self._inflater.decompress(data, _PIECE_BYTES)
            except zlib.error as error:
                raise ValueError(str(error)) from None
            data = self._inflater.unconsumed_tail or self._inflater.unused_data
            if piece:
                yield piece

    def end(self) -> None:
        """Say that the stream has ended.

        Raises:
            ValueError: it ends before its time.
        """
        if not self._inflater.eof:
            raise ValueError("it ends too early")


class Bodies:
    """Reads the bodies of one process's requests.

    Args:
        budget_bytes: of all bodies in hand together.
        wait_s: how long a body waits for room among the others.
    """

    def __init__(self, budget_bytes: int, wait_s: float = _WAIT_S) -> None:
        self._budget = Budget(max(budget_bytes, BODY_BYTES_MAX))
        self._wait_s = wait_s

    @asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytes]:
        """Yield a request's body, decompressed; what it holds of the budget is given back after.

        Raises:
            HTTPException: 413, it is too long; 415, compressed in another way than by gzip; 422,
                not gzip although it says so; 503, the bodies in hand leave no room for it.
        """
        _check_length(request)
        taken = 0
        pieces: list[bytes] = []
        try:
            async for piece in _pieces(request):
                if taken + len(piece) > BODY_BYTES_MAX:
                    raise _too_long()
                if not await self._budget.take(len(piece), self._wait_s):
                    raise HTTPException(
                        503,
                        "The server has as many bodies in hand as it may. Nothing was recorded: "
                        "try again.",
                        {"Retry-After": "1"},
                    )
                taken += len(piece)
                pieces.append(piece)
            yield b"".join(pieces)
        finally:
            self._budget.give(taken)


def _too_long() -> HTTPException:
    return HTTPException(
        413, f"The body has more than {BODY_BYTES_MAX} bytes. Nothing was recorded."
    )


def _check_length(request: Request) -> None:
    """Refuse by what a body says of itself, before anything of it is read."""
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > BODY_BYTES_MAX:
        raise _too_long()


async def _pieces(request: Request) -> AsyncIterator[bytes]:
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding == "identity":
        async for chunk in request.stream():
            yield chunk
        return
    if encoding != "gzip":
        raise HTTPException(
            415, "Bodies may be compressed by gzip, and in no other way. Nothing was recorded."
        )
    inflater = Inflater()
    read_bytes = 0
    try:
        async for chunk in request.stream():
            read_bytes += len(chunk)
            if read_bytes > BODY_BYTES_MAX:
                raise _too_long()
            for piece in inflater.feed(chunk):
                yield piece
        inflater.end()
    except ValueError as error:
        raise HTTPException(422, f"The body is not gzip: {error}. Nothing was recorded.") from None
