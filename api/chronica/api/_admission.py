"""How many requests one process answers at once: what is too much is refused at once."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from chronica.api._answers import error

__all__ = ["Admission"]

_ALWAYS = frozenset(("/", "/health", "/ready", "/metrics", "/openapi.json"))


class Admission:
    """ASGI middleware that bounds the requests under way; streams have a bound of their own.

    A request that waits holds memory; beyond the bound, an answer that says "later" is worth more
    than a place in a queue that only grows.

    Args:
        app: what it stands before.
        requests_max: how many at once.
    """

    def __init__(self, app: ASGIApp, *, requests_max: int) -> None:
        self._app = app
        self._requests_max = requests_max
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] != "http" or path in _ALWAYS or path.endswith("/stream"):
            await self._app(scope, receive, send)
            return
        if self._under_way >= self._requests_max:
            detail = "The server has as many requests under way as it may: try again."
            await error(503, detail, {"Retry-After": "1"})(scope, receive, send)
            return
        self._under_way += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._under_way -= 1
