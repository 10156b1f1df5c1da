"""Following chronica live: every actum, once, in order, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from httpx_sse import ServerSentEvent, aconnect_sse
from tests.harness.api_processes import api_process
from tests.harness.http import acta_path, serving
from tests.harness.rows import fill
from tests.harness.running import fresh_database, new_prefix, recorded, soaking

from chronica.acta import random_id
from chronica.api import ApiServer
from chronica.infra.embedded import EmbeddedKafka, EmbeddedPostgres
from chronica.infra.settings import Settings

OWNER = {"Chronica-Owner": "ardian"}


@pytest.fixture(scope="module")
def running_log(kafka: EmbeddedKafka, postgres: EmbeddedPostgres) -> Iterator[Settings]:
    with fresh_database(postgres.dsn) as dsn:
        settings = Settings(
            kafka_bootstrap_servers=kafka.bootstrap_servers,
            postgres_dsn=dsn,
            topic_prefix=new_prefix("stream"),
            port=0,
        )
        with recorded(settings):
            yield settings


@pytest.fixture
async def http(running_log: Settings) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(running_log, OWNER) as client:
        yield client


def message(content: str, **fields: Any) -> dict[str, Any]:
    return {
        "kind": "message",
        "actor_kind": "agent",
        "actor": "a",
        "content": content,
        **fields,
    }


async def append(http: httpx.AsyncClient, chronicum: str, *contents: str) -> list[dict[str, Any]]:
    body = {"acta": [message(content) for content in contents]}
    answer = await http.post(acta_path(chronicum), json=body)
    results = answer.json()["results"]
    assert [result["status"] for result in results] == [201] * len(contents), answer.text
    return [result["actum"] for result in results]


def stream_path(chronicum: str) -> str:
    return acta_path(chronicum).removesuffix("acta") + "stream"


@asynccontextmanager
async def following(
    http: httpx.AsyncClient, chronicum: str, **headers: str
) -> AsyncIterator[AsyncIterator[ServerSentEvent]]:
    async with aconnect_sse(http, "GET", stream_path(chronicum), headers=headers) as source:
        assert source.response.status_code == 200, await source.response.aread()
        yield source.aiter_sse()


async def take(events: AsyncIterator[ServerSentEvent], count: int) -> list[dict[str, Any]]:
    """Return the acta of the next events; the stream's first word has no data and is none."""
    acta: list[dict[str, Any]] = []
    async with asyncio.timeout(30):
        while len(acta) < count:
            event = await anext(events)
            if event.event == "actum":
                actum = event.json()
                assert event.id == str(actum["seq"])
                acta.append(actum)
    return acta


async def test_a_stream_has_what_was_and_then_what_comes(http: httpx.AsyncClient) -> None:
    chronicum = random_id()
    before = await append(http, chronicum, "1", "2")
    async with following(http, chronicum) as events:
        assert await take(events, 2) == before
        for number in range(3, 30):
            assert await append(http, chronicum, str(number)) == await take(events, 1)


async def test_a_stream_goes_on_after_the_last_event_that_was_seen(http: httpx.AsyncClient) -> None:
    chronicum = random_id()
    acta = await append(http, chronicum, *map(str, range(10)))
    async with following(http, chronicum, **{"Last-Event-ID": "7"}) as events:
        assert await take(events, 3) == acta[7:]
    path = stream_path(chronicum)
    async with aconnect_sse(http, "GET", path, params={"after_seq": "9"}) as source:
        assert await take(source.aiter_sse(), 1) == acta[9:]
    async with following(http, chronicum, **{"Last-Event-ID": "11"}) as events:
        more = await append(http, chronicum, "10", "11", "12")
        assert await take(events, 1) == more[1:2], "what was not asked for does not come"


@pytest.mark.parametrize("value", ["x", "-1", "1.5", "", "9" * 20, "²"])
async def test_what_is_no_seq_is_refused(http: httpx.AsyncClient, value: str) -> None:
    chronicum = random_id()
    await append(http, chronicum, "1")
    answer = await http.get(stream_path(chronicum), params={"after_seq": value})
    assert answer.status_code == 422
    answer = await http.get(
        stream_path(chronicum), params={"after_seq": "1"}, headers={"Last-Event-ID": "2"}
    )
    assert answer.status_code == 422


async def test_strangers_and_the_missing_are_told_the_same(http: httpx.AsyncClient) -> None:
    chronicum = random_id()
    await append(http, chronicum, "1")
    foreign = await http.get(stream_path(chronicum), headers={"Chronica-Owner": "stranger"})
    missing = await http.get(stream_path(chronicum + "x"))
    assert foreign.status_code == missing.status_code == 404
    assert foreign.text.replace(chronicum, "c") == missing.text.replace(chronicum + "x", "c")


async def test_an_event_is_one_line_whatever_the_metadata(http: httpx.AsyncClient) -> None:
    chronicum = random_id()
    metadata = '{\n "a":\r\n [NaN, "\\n\u2028"]}'
    body = json.dumps(message("line\nbreak\r\n\u2028"))[:-1] + f', "metadata": {metadata}}}'
    assert (await http.post(acta_path(chronicum), content=body.encode())).status_code == 201
    async with following(http, chronicum) as events:
        (actum,) = await take(events, 1)
    assert actum["content"] == "line\nbreak\r\n\u2028"
    assert actum["metadata"]["a"][1] == "\n\u2028"


async def test_a_long_chronicum_is_caught_up_from_its_first(
    http: httpx.AsyncClient, running_log: Settings
) -> None:
    chronicum = random_id()
    fill(running_log, chronicum, count=20_000, chars=50)
    async with following(http, chronicum) as events:
        acta = await take(events, 20_000)
    assert [actum["seq"] for actum in acta] == list(range(1, 20_001))


async def test_a_drain_ends_streams_at_once(running_log: Settings) -> None:
    server = ApiServer(running_log)
    await server.start()
    chronicum = random_id()
    async with httpx.AsyncClient(base_url=server.url, headers=OWNER, timeout=30) as http:
        async with asyncio.timeout(30):
            while (await http.get("/ready")).status_code != 200:
                await asyncio.sleep(0.05)
        await append(http, chronicum, "1")
        async with following(http, chronicum) as events:
            await take(events, 1)
            stopping = asyncio.ensure_future(server.stop())
            async with asyncio.timeout(5):
                rest = [event async for event in events]
            assert not rest
        async with asyncio.timeout(10):
            await stopping


async def test_streams_outlive_a_restart_of_postgres(
    http: httpx.AsyncClient, postgres: EmbeddedPostgres
) -> None:
    chronicum = random_id()
    await append(http, chronicum, "1")
    async with following(http, chronicum) as events:
        await take(events, 1)
        for kill in (postgres.stop, postgres.kill):
            await kill()
            answers = [
                await http.post(
                    acta_path(chronicum), json=message(str(n)), params={"acks": "logged"}
                )
                for n in range(5)
            ]
            assert [answer.status_code for answer in answers] == [202] * 5
            await postgres.start()
            acta = await take(events, 5)
            assert [actum["content"] for actum in acta] == [str(n) for n in range(5)]


async def test_too_many_streams_are_refused_and_a_place_comes_free(running_log: Settings) -> None:
    values = running_log.model_dump(exclude_unset=True)
    chronicum = random_id()
    async with serving(Settings(**{**values, "streams_max": 2}), OWNER) as http:
        await append(http, chronicum, "1")
        async with following(http, chronicum) as one, following(http, chronicum) as two:
            await take(one, 1)
            await take(two, 1)
            refused = await http.get(stream_path(chronicum))
            assert refused.status_code == 503
            assert refused.headers["Retry-After"]
        async with asyncio.timeout(10):
            while (await status_of(http, chronicum)) != 200:
                await asyncio.sleep(0.05)


async def status_of(http: httpx.AsyncClient, chronicum: str) -> int:
    async with http.stream("GET", stream_path(chronicum)) as answer:
        return answer.status_code


def rss_mb(pid: int) -> float:
    return float(psutil.Process(pid).memory_info().rss) / 2**20


@pytest.mark.soak
@pytest.mark.timeout(600)
async def test_many_readers_each_see_every_actum_in_order_once(
    settings: Settings, tmp_path: Path
) -> None:
    readers, chronica, rounds = soaking(1000, 100), soaking(100, 10), soaking(20, 5)
    ids = [random_id() for _ in range(chronica)]
    started = 0

    async def read(http: httpx.AsyncClient, chronicum: str) -> list[str]:
        nonlocal started
        # Half of them reconnect half way.
        contents: list[str] = []
        for until_count in (rounds // 2 + 1, rounds + 1):
            headers = {"Last-Event-ID": str(len(contents))} if contents else {}
            async with following(http, chronicum, **headers) as events:
                if not contents:
                    started += 1
                async with asyncio.timeout(300):
                    async for event in events:
                        if event.event == "actum":
                            assert event.id == str(len(contents) + 1)
                            contents.append(event.json()["content"])
                        if len(contents) == until_count:
                            break
        return contents

    with recorded(settings), api_process(settings, 1, tmp_path / "api.log") as api:
        await asyncio.to_thread(api.until_ready)
        idle_mb = rss_mb(api.process.pid)
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(
            base_url=api.url, headers=OWNER, timeout=300, limits=limits
        ) as http:
            for chronicum in ids:
                await append(http, chronicum, "0")
            reading = [asyncio.create_task(read(http, ids[n % chronica])) for n in range(readers)]
            while started < readers:
                await asyncio.sleep(0.1)
            open_mb = rss_mb(api.process.pid)
            for number in range(1, rounds + 1):
                await asyncio.gather(*(append(http, chronicum, str(number)) for chronicum in ids))
            seen = await asyncio.gather(*reading)
            live_mb = rss_mb(api.process.pid)
        assert all(contents == [str(n) for n in range(rounds + 1)] for contents in seen)
        print(
            f"{readers} readers of {chronica} chronica: API {idle_mb:.0f} MiB idle, "
            f"{open_mb:.0f} MiB with all open, {live_mb:.0f} MiB after {rounds} rounds"
        )
        assert live_mb < idle_mb + 50 + 0.5 * readers, "half a MiB a reader is too much"
        assert api.stop() == 0, api.log
