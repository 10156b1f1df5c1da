"""An answer too long to be held: sent as it is read, and cut rather than ended where it breaks.

Its client learns from the transfer alone whether it has everything, so the end is only said when
all is sent; whatever comes before that drops the connection in the midst.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Final

from fastapi import Response
from starlette.types import Receive, Scope, Send

from chronica.acta import StoreUnavailableError
from chronica.api._answers import actum_json
from chronica.projections import StoredActum

__all__ = ["LongAnswer"]

_log = logging.getLogger("chronica.api")

_PIECE_BYTES: Final = 64 * 1024
_PACE_BYTES: Final = 256 * 1024
_STALLED_S: Final = 30.0


class LongAnswer(Response):
    """A window that is streamed.

    Args:
        acta: opens the window; what it raises before the first byte is answered as an error.
        headers: besides the content type.
        stalled_s: how long a client may keep us waiting for each 256 KiB; then it is cut off, so
            that none holds a connection and a snapshot of Postgres for ever.
    """

    media_type = "application/json"

    def __init__(
        self,
        acta: AbstractAsyncContextManager[AsyncIterator[list[StoredActum]]],
        *,
        headers: dict[str, str],
        stalled_s: float = _STALLED_S,
    ) -> None:
        super().__init__(headers=headers)
        del self.headers["content-length"]
        self._acta = acta
        self._stalled_s = stalled_s
        self._waited_s = 0.0
        self._taken_bytes = 0

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Send it; stop as soon as the client is gone, which frees the connection to Postgres."""
        sending = asyncio.ensure_future(self._send(send))
        gone = asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait([sending, gone], return_when=asyncio.FIRST_COMPLETED)
        finally:
            sending.cancel()
            gone.cancel()
            await asyncio.wait([sending, gone])
        if not sending.cancelled():
            sending.result()

    async def _send(self, send: Send) -> None:
        async with self._acta as batches:
            await send(
                {
                    "type": "http.response.start",
                    "status": self.status_code,
                    "headers": self.raw_headers,
                }
            )
            # From here on an error can't be answered any more. Returning without having said the
            # end makes the server drop the connection.
            try:
                await self._send_body(batches, send)
            except StoreUnavailableError as problem:
                _log.warning("window cut off reason=%s", problem)
            except TimeoutError:
                _log.warning("window cut off reason=the client takes too little in its time")

    async def _send_body(self, batches: AsyncIterator[list[StoredActum]], send: Send) -> None:
        before = '{"acta":['
        async for batch in batches:
            if not batch:
                continue
            body = (before + ",".join(map(actum_json, batch))).encode()
            before = ","
            for start in range(0, len(body), _PIECE_BYTES):
                await self._send_piece(send, body[start : start + _PIECE_BYTES])
        end = "]}" if before == "," else f"{before}]}}"
        await self._send_piece(send, end.encode(), more=False)

    async def _send_piece(self, send: Send, piece: bytes, *, more: bool = True) -> None:
        # Only waiting for the client counts: where Postgres is slow, it is not to blame.
        clock = asyncio.get_running_loop().time
        began = clock()
        async with asyncio.timeout(self._stalled_s - self._waited_s):
            await send({"type": "http.response.body", "body": piece, "more_body": more})
        self._waited_s += clock() - began
        self._taken_bytes += len(piece)
        if self._taken_bytes >= _PACE_BYTES:
            self._waited_s, self._taken_bytes = 0.0, 0


async def _gone(receive: Receive) -> None:
    """Wait until the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
