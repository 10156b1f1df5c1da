"""HTTP clients that cost little, so that the figures are the server's: keep-alive, nothing else."""

from __future__ import annotations

import asyncio
import http.client
import time
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

__all__ = ["Client", "rate_of"]


class Client:
    """One keep-alive connection, one request at a time."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
        self._headers = dict(headers)

    def send(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """Return status and body of the answer."""
        self._connection.request(method, path, body, self._headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def seconds(self, method: str, path: str, body: bytes | None, status: int) -> float:
        """Return how long a request took whose answer has this status; another is an error."""
        started_s = time.perf_counter()
        answered, text = self.send(method, path, body)
        took_s = time.perf_counter() - started_s
        if answered != status:
            raise RuntimeError(f"{method} {path} was answered {answered}: {text[:200]!r}")
        return took_s

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


async def rate_of(
    url: str, request: Callable[[], tuple[str, bytes]], *, clients: int, lasts_s: float
) -> float:
    """Return requests per second of so many clients, each on a connection of its own.

    Args:
        url: of the server.
        request: returns path and JSON body of the next POST; all must be answered 2xx.
        clients: how many at once.
        lasts_s: how long is measured, after a tenth as long for warming up.
    """
    begins_s = time.monotonic() + lasts_s / 10
    ends_s = begins_s + lasts_s
    counts = await asyncio.gather(
        *(_client(url, request, begins_s, ends_s) for _ in range(clients))
    )
    return sum(counts) / lasts_s


async def _client(
    url: str, request: Callable[[], tuple[str, bytes]], begins_s: float, ends_s: float
) -> int:
    """Send one request after the other; return how many were answered in the measured time."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    count = 0
    try:
        while True:
            path, body = request()
            writer.write(
                f"POST {path} HTTP/1.1\r\nHost: bench\r\nChronica-Owner: ardian\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
                + body
            )
            await _answered(reader)
            now_s = time.monotonic()
            if now_s > ends_s:
                return count
            count += now_s > begins_s
    finally:
        writer.close()


async def _answered(reader: asyncio.StreamReader) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
    body = await reader.readexactly(length)
    if not head.startswith(b"http/1.1 2"):
        raise RuntimeError(f"answered {head[9:12].decode()}: {body[:200]!r}")
