"""The HTTP API over real Kafka and Postgres: every answer its callers can get, as documented."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from tests.harness.running import fresh_database, new_prefix, recorded

from chronica.acta import TEXT_CODE_POINTS_MAX, random_id
from chronica.acta.conformance import HOSTILE_TEXTS
from chronica.api import ApiServer, ApiStartError
from chronica.infra.embedded import EmbeddedKafka, EmbeddedPostgres
from chronica.infra.settings import Settings
from chronica.log import Entry, Position

OWNER = {"Chronica-Owner": "ardian"}
MESSAGE = {"kind": "message", "actor_kind": "human", "actor": "ardian", "content": "A table."}


@pytest.fixture(scope="module")
def running_log(kafka: EmbeddedKafka, postgres: EmbeddedPostgres) -> Iterator[Settings]:
    with fresh_database(postgres.dsn) as dsn:
        settings = Settings(
            kafka_bootstrap_servers=kafka.bootstrap_servers,
            postgres_dsn=dsn,
            topic_prefix=new_prefix("http"),
            port=0,
        )
        with recorded(settings):
            yield settings


@pytest.fixture
async def http(running_log: Settings) -> AsyncIterator[httpx.AsyncClient]:
    server = ApiServer(running_log)
    await server.start()
    try:
        async with httpx.AsyncClient(base_url=server.url, headers=OWNER, timeout=20) as client:
            async with asyncio.timeout(15):
                while (await client.get("/ready")).status_code != 200:
                    await asyncio.sleep(0.05)
            yield client
    finally:
        await server.stop()


def acta(chronicum: str) -> str:
    return f"/v1/chronica/{quote(chronicum, safe='')}/acta"


async def window(http: httpx.AsyncClient, chronicum: str, **params: Any) -> list[dict[str, Any]]:
    answer = await http.get(acta(chronicum), params=params)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["acta"]
    return found


async def test_a_recorded_actum_is_answered_whole_and_is_in_the_window(
    http: httpx.AsyncClient,
) -> None:
    chronicum = random_id()
    sent = {**MESSAGE, "metadata": {"z": 1, "a": [None, True]}, "id": "mine", "seq": 99, "at": "x"}
    answer = await http.post(acta(chronicum), json=sent)
    assert answer.status_code == 201
    assert answer.headers["Chronica-Position"]
    actum = answer.json()
    assert actum.pop("id") not in ("", "mine")
    assert actum.pop("at").endswith("Z")
    assert actum == {
        "chronicum_id": chronicum,
        "seq": 1,
        "kind": "message",
        "actor_kind": "human",
        "actor": "ardian",
        "content": "A table.",
        "call_id": None,
        "metadata": {"z": 1, "a": [None, True]},
    }
    assert await window(http, chronicum) == [answer.json()]


@pytest.mark.parametrize("by", ["header", "field"])
async def test_a_retry_with_its_key_is_answered_with_the_first_actum(
    http: httpx.AsyncClient, by: str
) -> None:
    chronicum = random_id()
    raw = {b"idempotency-key": "turn-3 ünï".encode()} if by == "header" else {}
    field = {} if by == "header" else {"idempotency_key": "turn-3 ünï"}
    first = await http.post(acta(chronicum), json={**MESSAGE, **field}, headers=raw)
    other = {**MESSAGE, **field, "content": "In other words."}
    again = await http.post(acta(chronicum), json=other, headers=raw)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == first.json()
    assert again.headers["Idempotency-Replayed"] == "true"
    assert "Idempotency-Replayed" not in first.headers
    assert again.headers["Chronica-Position"] != first.headers["Chronica-Position"]
    assert len(await window(http, chronicum)) == 1


async def test_foreign_and_missing_look_the_same_on_every_route(http: httpx.AsyncClient) -> None:
    mine, missing = random_id(), random_id()
    await http.post(acta(mine), json={**MESSAGE, "idempotency_key": "k"})
    stranger = {"Chronica-Owner": "stranger"}
    for path in ("", "/acta"):
        answers = [
            await http.get(f"/v1/chronica/{chronicum}{path}", headers=stranger)
            for chronicum in (mine, missing)
        ]
        assert [a.status_code for a in answers] == [404, 404]
        texts = [a.text.replace(c, "") for a, c in zip(answers, (mine, missing), strict=True)]
        assert texts[0] == texts[1]
    for body in (MESSAGE, {**MESSAGE, "idempotency_key": "k"}):
        assert (await http.post(acta(mine), json=body, headers=stranger)).status_code == 404
    assert [a["content"] for a in await window(http, mine)] == ["A table."]


async def test_expected_seq_is_kept_or_the_current_one_is_said(http: httpx.AsyncClient) -> None:
    chronicum = random_id()
    first = await http.post(
        acta(chronicum), json={**MESSAGE, "expected_seq": 0, "idempotency_key": "k"}
    )
    assert first.status_code == 201
    late = await http.post(acta(chronicum), json={**MESSAGE, "expected_seq": 0})
    assert late.status_code == 409
    assert late.json()["current_seq"] == 1
    retry = await http.post(
        acta(chronicum), json={**MESSAGE, "expected_seq": 0, "idempotency_key": "k"}
    )
    assert retry.status_code == 200, "a retry with the same key is a duplicate, not a conflict"


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"kind": "shout"}, "kind"),
        ({"actor_kind": "robot"}, "actor_kind"),
        ({"actor": ""}, "actor"),
        ({"actor": 7}, "actor"),
        ({"actor": None}, "actor"),
        ({"content": ""}, "content"),
        ({"content": ["x"]}, "content"),
        ({"call_id": ""}, "call_id"),
        ({"metadata": []}, "metadata"),
        ({"metadata": "x"}, "metadata"),
        ({"metadata": json.loads('{"a":' * 300 + "1" + "}" * 300)}, "nests"),
        ({"expected_seq": -1}, "expected_seq"),
        ({"expected_seq": True}, "expected_seq"),
        ({"expected_seq": 2**63}, "expected_seq"),
        ({"expected_seq": 10**3000}, "digits"),
        ({"idempotency_key": ""}, "key"),
        ({"idempotency_key": 5}, "key"),
        ({"idempotency_key": "k" * (TEXT_CODE_POINTS_MAX + 1)}, "key"),
    ],
)
async def test_an_invalid_field_is_named_and_nothing_is_recorded(
    http: httpx.AsyncClient, change: dict[str, Any], word: str
) -> None:
    chronicum = random_id()
    answer = await http.post(acta(chronicum), json={**MESSAGE, **change})
    assert answer.status_code == 422
    assert word in answer.json()["detail"]
    assert (await http.get(acta(chronicum))).status_code == 404


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b"\xff", b'{"kind":}', b"[" * 100_000, b'{"a":1}{']
)
async def test_a_body_that_is_no_object_is_refused(http: httpx.AsyncClient, body: bytes) -> None:
    answer = await http.post(acta(random_id()), content=body)
    assert answer.status_code == 422
    assert answer.json()["detail"]


async def test_a_missing_field_is_named(http: httpx.AsyncClient) -> None:
    for name in ("kind", "actor_kind", "actor", "content"):
        body = {field: value for field, value in MESSAGE.items() if field != name}
        answer = await http.post(acta(random_id()), json=body)
        assert answer.status_code == 422
        assert name in answer.json()["detail"]


async def test_an_owner_is_asked_for_on_every_route(http: httpx.AsyncClient) -> None:
    bare = httpx.AsyncClient(base_url=http.base_url)
    async with bare:
        for path in (acta("c"), "/v1/chronica/c"):
            assert (await bare.get(path)).status_code == 422
            assert (await bare.get(path, headers={"Chronica-Owner": ""})).status_code == 422
            not_utf8 = {b"chronica-owner": b"\xff"}
            assert (await bare.get(path, headers=not_utf8)).status_code == 422
        assert (await bare.post(acta("c"), json=MESSAGE)).status_code == 422
        for path in ("/health", "/ready"):
            assert (await bare.get(path)).status_code == 200


async def test_header_and_field_keys_that_differ_are_refused(http: httpx.AsyncClient) -> None:
    body = {**MESSAGE, "idempotency_key": "a"}
    answer = await http.post(acta(random_id()), json=body, headers={"Idempotency-Key": "b"})
    assert answer.status_code == 422
    same = await http.post(acta(random_id()), json=body, headers={"Idempotency-Key": "a"})
    assert same.status_code == 201


async def test_a_body_over_the_limit_is_refused_however_it_is_sent(
    http: httpx.AsyncClient,
) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(25):
            yield b" " * 1024 * 1024

    answer = await http.post(acta(random_id()), content=chunks())
    assert answer.status_code == 413
    big = await http.post(acta(random_id()), json={**MESSAGE, "content": "x" * 17_000_000})
    assert big.status_code in (413, 422)
    assert "16777216" in big.json()["detail"] or "16" in big.json()["detail"]


@pytest.mark.parametrize("chronicum", ["a/b", "%2F", "ü ☃", "a?b#c", "..a", "x" * 1024, "\u0000"])
async def test_any_id_that_can_stand_in_a_path_is_an_id(
    http: httpx.AsyncClient, chronicum: str
) -> None:
    own = f"{random_id()}{chronicum}"[:1024]
    answer = await http.post(acta(own), json=MESSAGE)
    assert answer.status_code == 201
    assert answer.json()["chronicum_id"] == own
    answer = await http.get(f"/v1/chronica/{quote(own, safe='')}")
    assert answer.json()["id"] == own
    assert answer.json()["owner_id"] == "ardian"
    assert answer.json()["last_seq"] == 1


async def test_an_id_that_is_not_utf8_or_too_long_is_refused(http: httpx.AsyncClient) -> None:
    assert (await http.get("/v1/chronica/%FF/acta")).status_code == 422
    assert (await http.post(acta("x" * 1025), json=MESSAGE)).status_code == 422
    assert (await http.get(acta("x" * 1025))).status_code == 404
    assert (await http.get("/v1/chronica/a/b/acta")).status_code == 404
    assert (await http.get("/v1/chronica/a/acta/")).status_code == 404, "never a redirect"


async def test_hostile_texts_come_out_as_they_went_in(http: httpx.AsyncClient) -> None:
    chronicum = random_id()
    texts = list(HOSTILE_TEXTS.values())
    for text in texts:
        body = {**MESSAGE, "content": text, "actor": text[:1000], "call_id": text[:1000]}
        answer = await http.post(acta(chronicum), content=json.dumps(body))
        assert answer.status_code == 201, answer.text
        assert answer.json()["content"] == text
    found = await window(http, chronicum)
    assert [a["content"] for a in found] == texts
    assert [a["actor"] for a in found] == [text[:1000] for text in texts]
    assert [a["call_id"] for a in found] == [text[:1000] for text in texts]


async def test_metadata_comes_out_byte_for_byte(http: httpx.AsyncClient) -> None:
    chronicum = random_id()
    source = (
        r'{ "z" : 1e400, "a":NaN, "big": 123456789012345678901234567890, "d": 1.10,'
        r' "s": "\ud800 \u0000 \\u0000 é", "": -Infinity, "a": 2 }'
    )
    body = f'{{"metadata": {source}, {json.dumps(MESSAGE)[1:]}'
    answer = await http.post(acta(chronicum), content=body.encode())
    assert answer.status_code == 201
    assert source in answer.text
    assert source in (await http.get(acta(chronicum))).text


async def test_windows_take_their_options(http: httpx.AsyncClient) -> None:
    chronicum = random_id()
    told = [
        ("message", "human", "one", None),
        ("thought", "agent", "two", None),
        ("tool_request", "agent", "{}", "c1"),
        ("tool_response", "system", "", "c1"),
        ("tool_request", "agent", "{}", "c2"),
        ("message", "agent", "three", None),
    ]
    for kind, actor_kind, content, call_id in told:
        body = {"kind": kind, "actor_kind": actor_kind, "actor": "x", "content": content}
        await http.post(acta(chronicum), json={**body, "call_id": call_id})

    async def seqs(**params: Any) -> list[int]:
        return [a["seq"] for a in await window(http, chronicum, **params)]

    assert await seqs() == [1, 2, 3, 4, 5, 6]
    assert await seqs(last_n=2) == [5, 6]
    assert await seqs(last_n=-1) == [1, 2, 3, 4, 5, 6]
    assert await seqs(kind=["message", "thought"], last_n=2) == [2, 6]
    assert await seqs(actor_kind="agent", kind="message") == [6]
    assert await seqs(max_chars=7) == [4, 5, 6]
    assert await seqs(whole_calls=True) == [1, 2, 3, 4, 6]
    assert await seqs(last_n=10**30) == [1, 2, 3, 4, 5, 6]
    for params in (
        {"last_n": "x"},
        {"kind": "shout"},
        {"max_chars": -1},
        {"whole_calls": True, "kind": "tool_request"},
        {"consistency": "strong"},
        {"kinds": "message"},
        {"position": "nonsense"},
    ):
        refused = await http.get(acta(chronicum), params=params)  # type: ignore[arg-type]
        assert refused.status_code == 422, params
        assert refused.json()["detail"]


async def test_a_position_is_waited_for_and_one_of_another_log_refused(
    http: httpx.AsyncClient,
) -> None:
    chronicum = random_id()
    position = (await http.post(acta(chronicum), json=MESSAGE)).headers["Chronica-Position"]
    for consistency in ("session", "linearizable", "eventual"):
        params = {"position": position, "consistency": consistency}
        assert len(await window(http, chronicum, **params)) == 1
    parsed = Position.parse(position)
    elsewhere = str(Position.of("0" * 32, parsed.entries))
    answer = await http.get(acta(chronicum), params={"position": elsewhere})
    assert answer.status_code == 422
    entry = parsed.entries[0]
    later = Entry(entry.topic, entry.partition, entry.offset + 1_000_000)
    ahead = str(Position.of(parsed.log_id, [later]))
    answer = await http.get(acta(chronicum), params={"position": ahead})
    assert answer.status_code == 504


async def test_forty_writers_of_one_key_are_answered_with_one_actum(
    http: httpx.AsyncClient,
) -> None:
    chronicum = random_id()
    bodies = [{**MESSAGE, "content": f"try {n}", "idempotency_key": "k"} for n in range(40)]
    answers = await asyncio.gather(*(http.post(acta(chronicum), json=body) for body in bodies))
    assert sorted(a.status_code for a in answers) == [200] * 39 + [201]
    assert len({a.text for a in answers}) == 1


async def test_small_answers_do_not_wait_for_delayed_acknowledgements() -> None:
    server = ApiServer(Settings(port=0, kafka_bootstrap_servers="x:1", postgres_dsn="x"))
    await server.start()
    try:
        assert server._socket is not None
        assert server._socket.proto == socket.IPPROTO_TCP, "asyncio sets TCP_NODELAY only then"
    finally:
        await server.stop()


async def test_a_taken_port_and_an_open_host_are_refused_with_a_sentence() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ApiStartError, match=rf"Port {port}.*--port"):
            await ApiServer(
                Settings(port=port, kafka_bootstrap_servers="x:1", postgres_dsn="x")
            ).start()
    nowhere = "host=127.0.0.1 port=1"
    with pytest.raises(ApiStartError, match=r"not known.*0\.0\.0\.0 is not bound.*loopback"):
        await ApiServer(
            Settings(host="0.0.0.0", port=0, kafka_bootstrap_servers="x:1", postgres_dsn=nowhere)
        ).start()


async def test_the_api_lives_and_says_what_is_missing_while_kafka_is_away() -> None:
    server = ApiServer(
        Settings(
            port=0, kafka_bootstrap_servers="127.0.0.1:1", postgres_dsn="host=127.0.0.1 port=1"
        )
    )
    await server.start()
    try:
        async with httpx.AsyncClient(base_url=server.url, headers=OWNER) as client:
            assert (await client.get("/health")).status_code == 200
            ready = await client.get("/ready")
            assert ready.status_code == 503
            assert ready.json()["ready"] is False
            assert ready.json()["reasons"]
            for answer in (
                await client.post(acta("c"), json=MESSAGE),
                await client.get(acta("c")),
            ):
                assert answer.status_code == 503
                assert answer.headers["Retry-After"]
    finally:
        await server.stop()
