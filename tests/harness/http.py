"""An API of this process, and a client of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import quote

import httpx

from chronica.api import ApiServer
from chronica.infra.settings import Settings

__all__ = ["acta_path", "serving"]


def acta_path(chronicum: str) -> str:
    """Return the path of a chronicum's acta."""
    return f"/v1/chronica/{quote(chronicum, safe='')}/acta"


@asynccontextmanager
async def serving(
    settings: Settings, headers: Mapping[str, str] | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    """Serve the API until the block ends, and give a client of it once it is ready."""
    server = ApiServer(settings)
    await server.start()
    try:
        async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=30) as client:
            async with asyncio.timeout(30):
                while (await client.get("/ready")).status_code != 200:
                    await asyncio.sleep(0.05)
            yield client
    finally:
        await server.stop()
