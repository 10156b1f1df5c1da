"""Bodies: limits that hold for what is really read, and a budget that is given back."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.exceptions import HTTPException
from starlette.requests import Request

from chronica.api._bodies import BODY_BYTES_MAX, Bodies, Budget, Inflater


def request_of(chunks: list[bytes], **headers: str) -> Request:
    """Return a request whose body comes in these chunks."""
    messages: Iterator[dict[str, Any]] = iter(
        [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
        + [{"type": "http.request", "body": b"", "more_body": False}]
    )

    async def receive() -> dict[str, Any]:
        return next(messages)

    sent = [(k.replace("_", "-").encode(), v.encode()) for k, v in headers.items()]
    return Request({"type": "http", "method": "POST", "headers": sent}, receive)


async def read(bodies: Bodies, request: Request) -> bytes:
    async with bodies.read(request) as body:
        return body


@given(st.lists(st.binary(max_size=2000), max_size=5), st.integers(1, 50))
def test_an_inflater_gives_back_what_was_deflated(members: list[bytes], cut: int) -> None:
    packed = b"".join(map(gzip.compress, members)) or gzip.compress(b"")
    inflater = Inflater()
    pieces = [
        piece for n in range(0, len(packed), cut) for piece in inflater.feed(packed[n : n + cut])
    ]
    inflater.end()
    assert b"".join(pieces) == b"".join(members)


@pytest.mark.parametrize(
    "packed", [b"", b"not gzip", gzip.compress(b"x" * 999)[:-1], gzip.compress(b"x")[:9]]
)
def test_what_is_not_whole_gzip_is_refused(packed: bytes) -> None:
    def inflate() -> None:
        inflater = Inflater()
        list(inflater.feed(packed))
        inflater.end()

    with pytest.raises(ValueError):
        inflate()


def test_an_inflater_is_never_more_than_a_piece_ahead() -> None:
    bomb = gzip.compress(b"0" * 100_000_000)
    pieces = Inflater().feed(bomb)
    assert [len(next(pieces)) <= 256 * 1024 for _ in range(3)] == [True] * 3


@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
async def test_a_body_over_the_limit_is_refused_whatever_it_says_of_itself(
    *, chunked: bool, encoding: str
) -> None:
    body = b"0" * (BODY_BYTES_MAX + 1)
    sent = gzip.compress(body, 1) if encoding == "gzip" else body
    headers = {"content_encoding": encoding}
    if not chunked:
        headers["content_length"] = str(len(sent))
    chunks = [sent[n : n + 65536] for n in range(0, len(sent), 65536)]
    bodies = Bodies(BODY_BYTES_MAX)
    with pytest.raises(HTTPException) as refused:
        await read(bodies, request_of(chunks, **headers))
    assert refused.value.status_code == 413
    assert bodies._budget.free_bytes == BODY_BYTES_MAX


async def test_a_body_that_says_it_is_too_long_is_not_read() -> None:
    request = request_of([], content_length=str(BODY_BYTES_MAX + 1))
    with pytest.raises(HTTPException) as refused:
        await read(Bodies(BODY_BYTES_MAX), request)
    assert refused.value.status_code == 413


async def test_another_compression_is_refused() -> None:
    with pytest.raises(HTTPException) as refused:
        await read(Bodies(BODY_BYTES_MAX), request_of([b"x"], content_encoding="br"))
    assert refused.value.status_code == 415


async def test_a_body_waits_for_room_and_is_refused_when_none_comes() -> None:
    bodies = Bodies(BODY_BYTES_MAX, wait_s=0.2)
    large = b"0" * (BODY_BYTES_MAX - 10)
    async with bodies.read(request_of([large])):
        with pytest.raises(HTTPException) as refused:
            await read(bodies, request_of([b"0" * 11]))
        assert refused.value.status_code == 503
        assert refused.value.headers == {"Retry-After": "1"}
        assert await read(bodies, request_of([b"0" * 10])) == b"0" * 10
        waiting = asyncio.ensure_future(read(bodies, request_of([b"0" * 11])))
        await asyncio.sleep(0.02)
        assert not waiting.done()
    assert await waiting == b"0" * 11
    assert bodies._budget.free_bytes == BODY_BYTES_MAX


async def test_a_budget_wakes_whoever_fits() -> None:
    budget = Budget(10)
    assert await budget.take(10, 0.1)
    waiting = [asyncio.ensure_future(budget.take(5, 5.0)) for _ in range(3)]
    await asyncio.sleep(0)
    budget.give(10)
    done, _ = await asyncio.wait(waiting, timeout=0.1)
    assert len(done) == 2
    budget.give(5)
    assert await asyncio.gather(*waiting) == [True] * 3
