"""When a stack that starts is ready: as its own API says."""

from __future__ import annotations

import asyncio
import logging

import httpx

from ._terminal import CommandError

__all__ = ["until_ready"]

_log = logging.getLogger("chronica.up")

_READY_WITHIN_S = 60.0
_READY_POLL_S = 0.1


async def until_ready(url: str, recording: asyncio.Task[None]) -> None:
    """Return when the API at a URL is ready, or when that takes too long; then the log says why.

    Raises:
        LogRefusedError: the recorder was refused.
        SchemaRefusedError: likewise.
        CommandError: the recorder ended by itself.
    """
    deadline = asyncio.get_running_loop().time() + _READY_WITHIN_S
    async with httpx.AsyncClient(trust_env=False, timeout=10.0) as client:
        while True:
            reasons = await _reasons(client, url)
            if reasons is None:
                return
            if recording.done():
                recording.result()
                raise CommandError("The recorder ended by itself: please report it.")
            if asyncio.get_running_loop().time() > deadline:
                _log.warning("not ready after %.0f s: %s", _READY_WITHIN_S, reasons)
                return
            await asyncio.sleep(_READY_POLL_S)


async def _reasons(client: httpx.AsyncClient, url: str) -> str | None:
    """Return why it isn't ready; None when it is."""
    try:
        answer = await client.get(f"{url}/ready")
        if answer.status_code == httpx.codes.OK:
            return None
        return " ".join(map(str, answer.json().get("reasons", [])))
    except (httpx.HTTPError, ValueError) as error:
        # A server that just died may hold up the answer: it is asked again.
        return f"the API did not answer ({type(error).__name__})"
