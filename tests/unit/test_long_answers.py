"""A streamed answer ends only when all is sent; its source is closed however it ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from chronica.acta import ActorKind, ActumKind, StoreUnavailableError
from chronica.api._long_answers import LongAnswer
from chronica.projections import StoredActum


def stored(seq: int, content: str = "text") -> StoredActum:
    return StoredActum(
        f"id{seq}",
        "c",
        ActumKind.MESSAGE,
        ActorKind.HUMAN,
        "ardian",
        content,
        None,
        None,
        datetime(2026, 1, 1, tzinfo=UTC),
        seq,
    )


class Source:
    """A window, and whether it was closed."""

    def __init__(
        self, *batches: list[StoredActum] | Exception, refusal: Exception | None = None
    ) -> None:
        self._batches = batches
        self._refusal = refusal
        self._closed = asyncio.Event()

    @property
    def closed(self) -> bool:
        return self._closed.is_set()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[AsyncIterator[list[StoredActum]]]:
        async def batches() -> AsyncIterator[list[StoredActum]]:
            for batch in self._batches:
                if isinstance(batch, Exception):
                    raise batch
                yield batch

        if self._refusal is not None:
            raise self._refusal
        try:
            yield batches()
        finally:
            self._closed.set()


async def never() -> Any:
    await asyncio.Event().wait()


class Client:
    """The server's side of one client: what was sent to it."""

    def __init__(self, *, takes: Callable[[int], bool] = lambda _: True) -> None:
        self.sent: list[Any] = []
        self.gone = asyncio.Event()
        self._takes = takes

    async def send(self, message: Any) -> None:
        if not self._takes(len(self.sent)):
            await never()
        self.sent.append(message)

    async def receive(self) -> Any:
        if self.sent == []:
            await asyncio.sleep(0)
        await self.gone.wait()
        return {"type": "http.disconnect"}

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)

    @property
    def ended(self) -> bool:
        return bool(self.sent) and self.sent[-1].get("more_body") is False


async def answered(source: Source, client: Client, stalled_s: float = 30.0) -> None:
    answer = LongAnswer(source.opened(), headers={"Cache-Control": "no-store"}, stalled_s=stalled_s)
    await answer({"type": "http"}, client.receive, client.send)


async def test_all_of_it_is_one_json_document() -> None:
    source = Source([], [stored(1), stored(2)], [], [stored(3, "y" * 200_000)], [])
    client = Client()
    await answered(source, client)
    assert [a["seq"] for a in json.loads(client.body)["acta"]] == [1, 2, 3]
    assert client.ended
    assert source.closed
    assert client.sent[0]["status"] == 200
    headers = dict(client.sent[0]["headers"])
    assert headers[b"cache-control"] == b"no-store"
    assert b"content-length" not in headers
    assert max(len(message.get("body", b"")) for message in client.sent) <= 64 * 1024


async def test_nothing_of_it_is_a_document_too() -> None:
    client = Client()
    await answered(Source([], []), client)
    assert json.loads(client.body) == {"acta": []}
    assert client.ended


async def test_an_error_before_the_first_byte_is_the_callers_to_answer() -> None:
    source, client = Source(refusal=StoreUnavailableError("too many")), Client()
    with pytest.raises(StoreUnavailableError, match="too many"):
        await answered(source, client)
    assert client.sent == []


async def test_where_the_source_breaks_the_end_is_not_said() -> None:
    source, client = Source([stored(1)], StoreUnavailableError("gone")), Client()
    await answered(source, client)
    assert client.body
    assert not client.ended
    assert source.closed


async def test_a_client_that_goes_away_closes_the_source() -> None:
    source, client = Source([stored(1)], [stored(2)]), Client(takes=lambda sent: sent < 2)
    task = asyncio.create_task(answered(source, client))
    while len(client.sent) < 2:
        await asyncio.sleep(0)
    client.gone.set()
    await task
    assert source.closed
    assert not client.ended


async def test_a_client_that_takes_nothing_is_cut_off() -> None:
    source, client = Source([stored(1)], [stored(2)]), Client(takes=lambda sent: sent < 2)
    await answered(source, client, stalled_s=0.05)
    assert source.closed
    assert not client.ended


async def test_a_client_that_takes_a_little_now_and_then_is_cut_off() -> None:
    source, client = Source(*([stored(n)] for n in range(1, 1000))), Client()
    send = client.send

    async def send_slowly(message: Any) -> None:
        await asyncio.sleep(0.02)
        await send(message)

    client.send = send_slowly  # type: ignore[method-assign]
    await answered(source, client, stalled_s=0.2)
    assert 0 < len(client.sent) <= 12, "a start and at most ten pieces of 20 ms"
    assert source.closed
    assert not client.ended


async def test_a_cancelled_answer_closes_the_source() -> None:
    source, client = Source([stored(1)]), Client(takes=lambda sent: sent < 1)
    task = asyncio.create_task(answered(source, client))
    while not client.sent:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert source.closed
