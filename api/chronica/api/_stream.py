"""The route that follows a chronicum live: server-sent events (docs/decisions/0011)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Final

from fastapi import APIRouter, HTTPException, Query, Request, Response
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from chronica.acta import ChronicumNotFoundError, ReadTimeoutError, StoreUnavailableError
from chronica.api._auth import caller_of
from chronica.api._backend import backend_of
from chronica.api._metrics import streams
from chronica.api._requests import only_known, owner_of, path_text
from chronica.store import Follower

__all__ = ["Streams", "router"]

router = APIRouter(prefix="/v1/chronica", tags=["acta"])

_COMMENT_S: Final = 15.0
_STALLED_S: Final = 30.0
_SEQ_DIGITS_MAX: Final = 19
_AGAIN_S: Final = 0.25
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class Streams:
    """How many streams this process may have at once.

    Args:
        streams_max: how many.
    """

    def __init__(self, streams_max: int) -> None:
        self._free = streams_max

    def enter(self) -> None:
        """Count one more.

        Raises:
            HTTPException: 503, there are as many as there may be.
        """
        if not self._free:
            raise HTTPException(
                503, "The server has as many streams as it may: try again.", {"Retry-After": "5"}
            )
        self._free -= 1
        streams.inc()

    def leave(self) -> None:
        """Count one less."""
        self._free += 1
        streams.dec()


@router.get("/{chronicum_id}/stream")
async def get_stream(
    request: Request,
    chronicum_id: str,
    after_seq: Annotated[
        str | None, Query(description="As Last-Event-ID, where no header can be sent.")
    ] = None,
) -> Response:
    """Follow a chronicum: the acta after ``Last-Event-ID``, then each one as it is recorded.

    Server-sent events: ``id`` is the seq, ``event`` is ``actum``, ``data`` the actum. Without the
    header it begins with the first. A comment every 15 seconds.
    """
    caller = await caller_of(request, "read")
    owner = owner_of(request)
    only_known(request, "after_seq")
    chronicum = path_text(chronicum_id)
    after = _after(request.headers.get("last-event-id"), after_seq)
    backend = backend_of(request)
    window = await backend.opened.reader.window(caller.tenant, owner, chronicum, None)
    if window.chronicum is None:
        raise ChronicumNotFoundError(chronicum)
    counted: Streams = request.app.state.streams
    counted.enter()
    events = _events(request, caller.tenant, chronicum, after, window.chronicum.last_seq)
    return _Stream(events, counted)


def _after(header: str | None, parameter: str | None) -> int:
    """Return the seq after which a stream begins.

    Raises:
        HTTPException: 422, it is not one, or two that differ came.
    """
    given = {value for value in (header, parameter) if value is not None}
    if len(given) > 1:
        raise HTTPException(422, "Last-Event-ID and after_seq differ: send one of them.")
    (value,) = given or ("0",)
    if not (value.isascii() and value.isdigit() and len(value) <= _SEQ_DIGITS_MAX):
        raise HTTPException(422, "Last-Event-ID and after_seq are a seq: 0 or more, in digits.")
    return int(value)


async def _events(
    request: Request, tenant: str, chronicum: str, after: int, last_seq: int
) -> AsyncIterator[bytes]:
    feed = backend_of(request).opened.feed
    yield b"retry: 1000\n\n"
    with feed.follow(tenant, chronicum, after=after, last_seq=last_seq) as follower:
        clock = asyncio.get_running_loop().time
        comment_at = clock() + _COMMENT_S
        while not feed.ended:
            data = await _next(follower, max(0.0, comment_at - clock()))
            if data:
                yield data
            if clock() >= comment_at:
                comment_at = clock() + _COMMENT_S
                try:
                    await caller_of(request, "read")
                except HTTPException:
                    return  # its key was revoked
                yield b": alive\n\n"


async def _next(follower: Follower, wait_s: float) -> bytes:
    try:
        return b"".join(event.data for event in await follower.next(wait_s))
    except (StoreUnavailableError, ReadTimeoutError):
        # The stream outlives a Postgres that is away: it goes on where it was.
        await asyncio.sleep(min(wait_s, _AGAIN_S))
        return b""


class _Stream(StreamingResponse):
    """A stream that is counted, and cut off when its client does not read."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[bytes], counted: Streams) -> None:
        super().__init__(events, headers=_HEADERS)
        self._counted = counted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def bounded(message: Message) -> None:
            async with asyncio.timeout(_STALLED_S):
                await send(message)

        try:
            await super().__call__(scope, receive, bounded)
        except TimeoutError:
            pass  # what is not read has no end either: the connection is closed
        finally:
            self._counted.leave()
