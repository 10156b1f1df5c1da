"""Appending over HTTP, one and many: every answer by its cause, on real Kafka and Postgres."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from tests.fixtures_kafka import paused
from tests.harness.http import acta_path, serving
from tests.harness.running import fresh_database, new_prefix, recorded

from chronica.acta import load_json, random_id
from chronica.acta.conformance import HOSTILE_TEXTS
from chronica.infra.embedded import EmbeddedKafka, EmbeddedPostgres
from chronica.infra.settings import Settings
from chronica.log import Entry, Position

OWNER = {"Chronica-Owner": "ardian"}
STRANGER = {"Chronica-Owner": "a stranger"}
MESSAGE = {"kind": "message", "actor_kind": "human", "actor": "ardian", "content": "A table."}


@pytest.fixture(scope="module")
def running_log(kafka: EmbeddedKafka, postgres: EmbeddedPostgres) -> Iterator[Settings]:
    with fresh_database(postgres.dsn) as dsn:
        settings = Settings(
            kafka_bootstrap_servers=kafka.bootstrap_servers,
            postgres_dsn=dsn,
            topic_prefix=new_prefix("append"),
            port=0,
        )
        with recorded(settings):
            yield settings


@pytest.fixture
async def http(running_log: Settings) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(running_log, OWNER) as client:
        yield client


async def batch(
    http: httpx.AsyncClient, chronicum: str, acta: list[Any], **params: str
) -> list[dict[str, Any]]:
    answer = await http.post(acta_path(chronicum), json={"acta": acta}, params=params)
    assert answer.status_code == 200, answer.text
    results: list[dict[str, Any]] = answer.json()["results"]
    assert len(results) == len(acta)
    return results


async def window(http: httpx.AsyncClient, chronicum: str, **params: str) -> list[dict[str, Any]]:
    answer = await http.get(acta_path(chronicum), params=params)
    assert answer.status_code == 200, answer.text
    acta: list[dict[str, Any]] = answer.json()["acta"]
    return acta


async def outcome(http: httpx.AsyncClient, position: str, **headers: str) -> dict[str, Any]:
    answer = await http.get(f"/v1/outcomes/{position}", headers=headers)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def decided(http: httpx.AsyncClient, position: str) -> dict[str, Any]:
    """Ask until there is a decision."""
    async with asyncio.timeout(20):
        while (found := await outcome(http, position))["status"] == "pending":
            await asyncio.sleep(0.02)
    return found


async def test_logged_is_answered_with_a_position_that_reads_can_wait_for(
    http: httpx.AsyncClient,
) -> None:
    chronicum = random_id()
    for acta in (MESSAGE, {"acta": [MESSAGE, MESSAGE]}):
        answer = await http.post(acta_path(chronicum), json=acta, params={"acks": "logged"})
        position = answer.headers["Chronica-Position"]
        if answer.status_code == 202:
            body = answer.json()
            assert body == {"status": "queued", "id": body["id"], "position": position}
        else:
            assert [result["status"] for result in answer.json()["results"]] == [202, 202]
            assert all(result["id"] for result in answer.json()["results"])
    assert len(await window(http, chronicum, position=position)) == 3
    refused = await http.post(acta_path(chronicum), json=MESSAGE, params={"acks": "all"})
    assert refused.status_code == 422


async def test_a_batch_has_a_result_for_each_in_order(http: httpx.AsyncClient) -> None:
    chronicum = random_id()
    results = await batch(
        http,
        chronicum,
        [
            {**MESSAGE, "content": "1", "idempotency_key": "k1"},
            {**MESSAGE, "kind": "song"},
            {**MESSAGE, "content": "again", "idempotency_key": "k1"},
            {**MESSAGE, "content": "2", "expected_seq": 1},
            {**MESSAGE, "content": "late", "expected_seq": 1},
            {**MESSAGE, "content": "3", "expected_seq": 2},
            "no object",
            {**MESSAGE, "idempotency_key": ""},
            {"kind": "message"},
        ],
    )
    assert [result["status"] for result in results] == [201, 422, 200, 201, 409, 201, 422, 422, 422]
    assert results[2]["actum"] == results[0]["actum"]
    assert results[4]["current_seq"] == 2
    assert all(result["detail"] for result in results if result["status"] >= 400)
    assert "kind" in results[1]["detail"]
    acta = await window(http, chronicum)
    assert [actum["content"] for actum in acta] == ["1", "2", "3"]
    assert acta == [results[n]["actum"] for n in (0, 3, 5)]


async def test_a_batch_is_after_its_position_and_without_one_if_nothing_is_in_the_log(
    http: httpx.AsyncClient,
) -> None:
    chronicum = random_id()
    answer = await http.post(acta_path(chronicum), json={"acta": [MESSAGE] * 300})
    position = answer.headers["Chronica-Position"]
    assert len(await window(http, chronicum, position=position, consistency="eventual")) == 300
    for nothing in ([], [{**MESSAGE, "kind": "song"}]):
        answer = await http.post(acta_path(chronicum), json={"acta": nothing})
        assert answer.status_code == 200
        assert "Chronica-Position" not in answer.headers


async def test_a_batch_of_a_strangers_chronicum_is_not_found_item_by_item(
    http: httpx.AsyncClient,
) -> None:
    chronicum = random_id()
    await batch(http, chronicum, [{**MESSAGE, "idempotency_key": "k"}])
    acta = [MESSAGE, {**MESSAGE, "idempotency_key": "k"}]
    answer = await http.post(acta_path(chronicum), json={"acta": acta}, headers=STRANGER)
    assert [result["status"] for result in answer.json()["results"]] == [404, 404]
    assert "ardian" not in answer.text
    assert len(await window(http, chronicum)) == 1


@pytest.mark.parametrize(
    "body",
    [
        b'{"acta": {}}',
        b'{"acta": [1, 2}',
        b'{"acta": [], "more": 1}',
        b'{"acta": null}',
        b"[]",
        b'{"acta": [' + b",".join([b"{}"] * 10_001) + b"]}",
        b'{"acta": ' + b"[" * 100_000 + b"}",
    ],
    ids=["object", "broken", "more", "null", "array", "too many", "too deep"],
)
async def test_what_is_no_batch_is_refused_whole(http: httpx.AsyncClient, body: bytes) -> None:
    chronicum = random_id()
    answer = await http.post(acta_path(chronicum), content=body)
    assert answer.status_code == 422, answer.text
    assert (await http.get(acta_path(chronicum))).status_code == 404


async def test_a_batch_takes_no_key_as_a_header(http: httpx.AsyncClient) -> None:
    answer = await http.post(
        acta_path(random_id()), json={"acta": [MESSAGE]}, headers={"Idempotency-Key": "k"}
    )
    assert answer.status_code == 422
    assert "fields" in answer.json()["detail"]


async def test_40_batches_at_once_with_the_same_keys_are_recorded_once(
    http: httpx.AsyncClient,
) -> None:
    chronicum = random_id()
    acta = [{**MESSAGE, "content": str(n), "idempotency_key": f"k{n}"} for n in range(10)]
    answers = await asyncio.gather(*(batch(http, chronicum, acta) for _ in range(40)))
    recorded_ = await window(http, chronicum)
    assert [actum["content"] for actum in recorded_] == [str(n) for n in range(10)]
    for results in answers:
        assert [result["actum"] for result in results] == recorded_
    statuses = [result["status"] for results in answers for result in results]
    assert statuses.count(201) == 10
    assert statuses.count(200) == 390


async def test_whatever_comes_in_a_batch_comes_out_the_same(http: httpx.AsyncClient) -> None:
    chronicum = random_id()
    metadata = '{"z": NaN, "a": 1e400, "big": %s, "lone": "\\ud800", "a": -0.0}' % ("9" * 5000)
    texts = list(HOSTILE_TEXTS.values())
    items = [json.dumps({**MESSAGE, "content": text}) for text in texts if text]
    items.append(json.dumps(MESSAGE)[:-1] + f', "metadata":  {metadata} }}')
    answer = await http.post(
        acta_path(chronicum), content=f'{{ "acta" : [ {" , ".join(items)} ] }}'.encode()
    )
    assert [result["status"] for result in load_json(answer.text)["results"]] == [201] * len(items)
    answer = await http.get(acta_path(chronicum))
    acta = load_json(answer.text)["acta"]
    assert [actum["content"] for actum in acta[:-1]] == [text for text in texts if text]
    assert metadata in (await http.get(acta_path(chronicum), params={"last_n": 1})).text


async def test_a_gzipped_body_is_read(http: httpx.AsyncClient) -> None:
    chronicum = random_id()
    body = gzip.compress(json.dumps({"acta": [MESSAGE] * 50}).encode())
    answer = await http.post(
        acta_path(chronicum), content=body, headers={"Content-Encoding": "gzip"}
    )
    assert [result["status"] for result in answer.json()["results"]] == [201] * 50
    for broken, encoding, status in ((body[:-3], "gzip", 422), (body, "zstd", 415)):
        answer = await http.post(
            acta_path(chronicum), content=broken, headers={"Content-Encoding": encoding}
        )
        assert answer.status_code == status
    assert len(await window(http, chronicum)) == 50


async def test_a_bomb_is_refused_and_chunks_count_too(http: httpx.AsyncClient) -> None:
    bomb = gzip.compress(b"0" * 200_000_000)

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(26):
            yield b" " * (1 << 20)

    for content, headers in ((bomb, {"Content-Encoding": "gzip"}), (chunks(), {})):
        answer = await http.post(acta_path(random_id()), content=content, headers=headers)
        assert answer.status_code == 413


async def test_outcomes_of_every_kind_are_their_owners_own(http: httpx.AsyncClient) -> None:
    chronicum = random_id()

    async def logged(actum: dict[str, Any], **headers: str) -> str:
        answer = await http.post(
            acta_path(chronicum), json=actum, params={"acks": "logged"}, headers=headers
        )
        assert answer.status_code == 202
        return str(answer.json()["position"])

    first = await logged({**MESSAGE, "idempotency_key": "k"})
    again = await logged({**MESSAGE, "content": "other", "idempotency_key": "k"})
    conflict = await logged({**MESSAGE, "expected_seq": 7})
    foreign = await logged(MESSAGE, **STRANGER)
    (actum,) = await window(http, chronicum, position=foreign)
    assert await decided(http, first) == {"status": "recorded", "actum": actum}
    assert await decided(http, again) == {"status": "duplicate", "actum": actum}
    assert await decided(http, conflict) == {
        "status": "refused",
        "reason": "sequence_conflict",
        "current_seq": 1,
    }
    assert await outcome(http, foreign, **STRANGER) == {"status": "refused", "reason": "not_found"}
    # Foreign and missing look the same, to the byte.
    missing = await http.get(f"/v1/outcomes/{beyond(first)}")
    assert missing.status_code == 404
    for position, asker in (
        (first, STRANGER),
        (again, STRANGER),
        (conflict, STRANGER),
        (foreign, OWNER),
    ):
        answer = await http.get(f"/v1/outcomes/{position}", headers=asker)
        assert (answer.status_code, answer.content) == (404, missing.content)


def beyond(token: str) -> str:
    """Return a position in the same partition that nothing has come to."""
    position = Position.parse(token)
    (entry,) = position.entries
    return str(Position(position.log_id, (Entry(entry.topic, entry.partition, 10**12),)))


async def test_positions_that_name_no_single_write_are_refused(http: httpx.AsyncClient) -> None:
    log_id = Position.parse(
        (await http.post(acta_path(random_id()), json=MESSAGE)).headers["Chronica-Position"]
    ).log_id
    several = Position(log_id, (Entry("acta", 0, 0), Entry("acta", 1, 0)))
    other = Position("0" * 32, (Entry("acta", 0, 0),))
    nowhere = Position(log_id, (Entry("acta", 99, 0),))
    for token, status in ((several, 422), (other, 422), ("nonsense", 422), (nowhere, 404)):
        assert (await http.get(f"/v1/outcomes/{token}")).status_code == status


async def test_while_kafka_hangs_nothing_is_recorded_and_it_is_said(
    http: httpx.AsyncClient, kafka: EmbeddedKafka
) -> None:
    chronicum = random_id()
    async with paused(kafka):
        first = asyncio.ensure_future(http.post(acta_path(chronicum), json=MESSAGE))
        await asyncio.sleep(3.0)  # past the writer's patience
        began = time.monotonic()
        for acta in (MESSAGE, {"acta": [MESSAGE] * 3}):
            answer = await http.post(acta_path(chronicum), json=acta)
            assert answer.status_code == 503
            assert int(answer.headers["Retry-After"]) >= 1
        assert time.monotonic() - began < 2.0
        unknown = await first
    assert unknown.status_code == 504
    retried = await http.post(
        acta_path(chronicum), json=MESSAGE, headers={"Idempotency-Key": unknown.json()["retry_key"]}
    )
    assert retried.status_code in (200, 201)
    assert len(await window(http, chronicum)) == 1
