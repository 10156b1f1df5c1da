"""Long windows over HTTP: streamed, in bounded memory, whole or visibly broken off."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.harness.api_process import ApiProcess, api_process
from tests.harness.http import acta_path, serving
from tests.harness.rows import fill
from tests.harness.running import dsn_of, fresh_database, new_prefix, recorded

from chronica.acta import StoreUnavailableError, WindowQuery, random_id, whole_calls
from chronica.api import _windows
from chronica.api._long_answers import LongAnswer
from chronica.infra.embedded import EmbeddedKafka, EmbeddedPostgres
from chronica.infra.settings import Settings
from chronica.store import connect

OWNER = {"Chronica-Owner": "ardian"}
MIB = 1024 * 1024
LONG = 40_000  # acta of 300 characters: some 20 MB, more than sockets and buffers take


@pytest.fixture(scope="module")
def running_log(kafka: EmbeddedKafka, postgres: EmbeddedPostgres) -> Iterator[Settings]:
    with fresh_database(postgres.dsn) as dsn:
        settings = Settings(
            kafka_bootstrap_servers=kafka.bootstrap_servers,
            postgres_dsn=dsn,
            topic_prefix=new_prefix("long"),
            port=0,
        )
        with recorded(settings):
            yield settings


@pytest.fixture(scope="module")
def long_one(running_log: Settings) -> str:
    chronicum = random_id()
    fill(running_log, chronicum, count=LONG)
    return chronicum


@pytest.fixture
async def http(running_log: Settings) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(running_log, OWNER) as client:
        yield client


class LongReaders:
    """What the API's long reads are doing in Postgres now."""

    def __init__(self, settings: Settings) -> None:
        self._dsn = dsn_of(settings)

    def ask(self, what: str) -> Any:
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            row = connection.execute(
                f"SELECT {what} FROM pg_stat_activity WHERE datname = current_database() "
                "AND application_name = 'chronica long reader' AND state = 'active'"
            ).fetchone()
        assert row is not None
        return row[0]

    @property
    def active(self) -> int:
        return int(self.ask("count(*)"))

    def kill(self) -> None:
        assert self.ask("count(pg_terminate_backend(pid))") > 0

    async def until(self, active: int) -> None:
        async with asyncio.timeout(20):
            while self.active != active:
                await asyncio.sleep(0.05)


@pytest.fixture
def long_readers(running_log: Settings) -> LongReaders:
    return LongReaders(running_log)


def check_whole(body: bytes, count: int = LONG) -> list[dict[str, Any]]:
    acta: list[dict[str, Any]] = json.loads(body)["acta"]
    assert [actum["seq"] for actum in acta] == list(range(1, count + 1))
    return acta


@contextmanager
def opened(url: str, chronicum: str) -> Iterator[socket.socket]:
    """Ask for a window with a client that knows nothing, and reads nothing by itself."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    with socket.create_connection((parts.hostname, parts.port), timeout=20) as client:
        request = (
            f"GET {acta_path(chronicum)} HTTP/1.1\r\nHost: x\r\nChronica-Owner: ardian\r\n\r\n"
        )
        client.sendall(request.encode())
        yield client


def read_to_end(client: socket.socket) -> bytes:
    received = []
    while True:
        try:
            chunk = client.recv(MIB)
        except ConnectionResetError:
            break
        if not chunk:
            break
        received.append(chunk)
    return b"".join(received)


async def test_a_long_window_is_whole_and_says_its_length_only_at_its_end(
    http: httpx.AsyncClient, long_one: str, running_log: Settings
) -> None:
    answer = await http.get(acta_path(long_one))
    acta = check_whole(answer.content)
    assert answer.headers["Transfer-Encoding"] == "chunked"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Content-Type"] == "application/json"
    short = await http.get(acta_path(long_one), params={"last_n": 5})
    assert short.json()["acta"] == acta[-5:]
    assert short.headers["Content-Length"] == str(len(short.content))
    assert short.headers["Cache-Control"] == "no-store"
    assert (await http.get(f"/v1/chronica/{long_one}")).headers["Cache-Control"] == "no-store"
    async with connect(settings=running_log) as store:
        listed = await store.window("ardian", long_one, WindowQuery())
    assert [(a.seq, a.content) for a in listed] == [(a["seq"], a["content"]) for a in acta]


async def test_long_windows_are_cut_as_short_ones_are(
    http: httpx.AsyncClient, long_one: str
) -> None:
    acta = check_whole((await http.get(acta_path(long_one))).content)

    async def window(**params: Any) -> list[dict[str, Any]]:
        answer = await http.get(acta_path(long_one), params=params)
        assert answer.headers["Transfer-Encoding"] == "chunked", "it is long"
        found: list[dict[str, Any]] = answer.json()["acta"]
        return found

    def whole(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        kept = {row.seq for row in whole_calls(SimpleNamespace(**row) for row in rows)}
        return [row for row in rows if row["seq"] in kept]

    tools = ("tool_request", "tool_response")
    agents = [a for a in acta if a["actor_kind"] != "human" and a["kind"] in tools]
    assert len(whole(acta)) < LONG
    assert await window(whole_calls=True) == whole(acta)
    assert await window(kind=list(tools), whole_calls=True) == whole(agents)
    assert await window(last_n=20_001, whole_calls=True) == whole(acta[-20_001:])
    assert await window(kind="thought") == [a for a in acta if a["kind"] == "thought"]
    assert await window(max_chars=300 * 30_000 + 299) == acta[-30_000:]
    spoken = [a for a in acta if a["kind"] in ("message", "thought")]
    assert await window(kind=["message", "thought"], whole_calls=True) == spoken


def growth(api: ApiProcess, path: str, size_bytes: int) -> int:
    """Read a window and drop it; return by how much the API's memory grew at most."""
    before = api.memory_bytes("VmRSS")
    read = 0
    with httpx.stream("GET", f"{api.url}{path}", headers=OWNER, timeout=60) as answer:
        assert answer.status_code == 200
        for chunk in answer.iter_raw():
            read += len(chunk)
    assert read > size_bytes
    return api.memory_bytes("VmHWM") - before


def test_memory_is_bounded_however_long_a_window_is(running_log: Settings) -> None:
    many, large = random_id(), random_id()
    fill(running_log, many, count=200_000)
    fill(running_log, large, count=24, chars=15 * MIB)
    with api_process(running_log) as api:
        growth(api, acta_path(many) + "?last_n=20000", 5 * MIB)  # what comes once, comes now
        grown = growth(api, acta_path(many), 90 * MIB)
        print(f"200,000 acta: grown by {grown / MIB:.1f} MiB")
        assert grown < 32 * MIB
        grown = growth(api, acta_path(many) + "?whole_calls=true", 85 * MIB)
        print(f"the same, whole calls: grown by {grown / MIB:.1f} MiB")
        assert grown < 48 * MIB
        grown = growth(api, acta_path(large) + "?last_n=24", 24 * 15 * MIB)
        print(f"24 acta of 15 MiB: grown by {grown / MIB:.1f} MiB")
        assert grown < 180 * MIB


async def test_the_first_byte_comes_before_the_last_row_is_read(
    http: httpx.AsyncClient, long_one: str, long_readers: LongReaders
) -> None:
    async with http.stream("GET", acta_path(long_one)) as answer:
        chunks = answer.aiter_raw()
        received = [await anext(chunks)]
        # Nobody reads on, so the statement can't come to its end.
        await asyncio.sleep(0.5)
        assert long_readers.active == 1
        received += [chunk async for chunk in chunks]
    check_whole(b"".join(received))
    await long_readers.until(active=0)


async def test_a_client_that_goes_away_frees_the_connection(
    http: httpx.AsyncClient, long_one: str, long_readers: LongReaders
) -> None:
    with opened(str(http.base_url), long_one) as client:
        await long_readers.until(active=1)
        assert client.recv(100).startswith(b"HTTP/1.1 200 ")
    await long_readers.until(active=0)


async def test_a_client_that_reads_nothing_is_cut_off(
    http: httpx.AsyncClient,
    long_one: str,
    long_readers: LongReaders,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_windows, "LongAnswer", partial(LongAnswer, stalled_s=0.5))
    with opened(str(http.base_url), long_one) as client:
        await long_readers.until(active=1)
        await long_readers.until(active=0)
        received = await asyncio.to_thread(read_to_end, client)
    assert received.startswith(b"HTTP/1.1 200 ")
    assert not received.endswith(b"0\r\n\r\n")


async def test_where_postgres_breaks_in_the_midst_the_transfer_breaks_off(
    http: httpx.AsyncClient, long_one: str, long_readers: LongReaders
) -> None:
    with opened(str(http.base_url), long_one) as client:
        await long_readers.until(active=1)
        long_readers.kill()
        received = await asyncio.to_thread(read_to_end, client)
    assert received.startswith(b"HTTP/1.1 200 ")
    assert not received.endswith(b"0\r\n\r\n"), "the end was said, and it was not the end"
    async with http.stream("GET", acta_path(long_one)) as answer:
        await long_readers.until(active=1)
        long_readers.kill()
        with pytest.raises(httpx.RemoteProtocolError):
            await answer.aread()
    check_whole((await http.get(acta_path(long_one))).content)


async def test_few_are_read_at_once_and_short_reads_go_on(
    http: httpx.AsyncClient, long_one: str, long_readers: LongReaders
) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(4):
            stack.enter_context(opened(str(http.base_url), long_one))
        await long_readers.until(active=4)
        answers = await asyncio.gather(
            http.get(acta_path(long_one)),
            *(http.get(acta_path(long_one), params={"last_n": 50}) for _ in range(50)),
        )
        assert [answer.status_code for answer in answers] == [503, *[200] * 50]
        assert int(answers[0].headers["Retry-After"]) > 0
        assert "last_n" in answers[0].json()["detail"]
    await long_readers.until(active=0)
    check_whole((await http.get(acta_path(long_one))).content)


async def test_no_statement_timeout_cuts_a_healthy_stream(
    running_log: Settings, long_one: str
) -> None:
    dsn = dsn_of(running_log)
    name = str(conninfo_to_dict(dsn)["dbname"])
    with psycopg.connect(dsn, autocommit=True) as connection:
        for change in ("SET statement_timeout = '1s'", "RESET statement_timeout"):
            connection.execute(f'ALTER DATABASE "{name}" {change}'.encode())
            if change.startswith("RESET"):
                break
            async with (
                serving(running_log, OWNER) as client,
                client.stream("GET", acta_path(long_one)) as answer,
            ):
                chunks = answer.aiter_raw()
                received = [await anext(chunks)]
                await asyncio.sleep(2.0)
                received += [chunk async for chunk in chunks]
    check_whole(b"".join(received))


async def test_a_rest_that_postgres_has_lost_is_no_shorter_window(
    running_log: Settings, long_one: str
) -> None:
    async with connect(settings=running_log, read_timeout_s=1.0) as store:
        window = await store._reader.window("local", "ardian", long_one, WindowQuery())
        assert window.rest is not None
        # As if a crash had taken the newest commits back after the window was opened.
        lost = replace(window, rest=replace(window.rest, last_seq=LONG + 1))
        with pytest.raises(StoreUnavailableError):
            async with store._reader.streamed(lost):
                pass
        async with store._reader.streamed(window) as batches:
            seqs = [actum.seq async for batch in batches for actum in batch]
        assert seqs == list(range(1, LONG + 1))


async def test_a_postgres_that_dies_in_the_midst_breaks_the_transfer_off_and_is_waited_out(
    http: httpx.AsyncClient, long_one: str, long_readers: LongReaders, postgres: EmbeddedPostgres
) -> None:
    with opened(str(http.base_url), long_one) as client:
        await long_readers.until(active=1)
        await postgres.kill()
        received = await asyncio.to_thread(read_to_end, client)
        assert not received.endswith(b"0\r\n\r\n")
        await postgres.start()
    async with asyncio.timeout(30):
        while (answer := await http.get(acta_path(long_one))).status_code != 200:
            assert answer.status_code == 503
            await asyncio.sleep(0.05)
    check_whole(answer.content)
