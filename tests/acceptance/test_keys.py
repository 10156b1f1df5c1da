"""Who may call: keys by the command line, over HTTP, and while Postgres is away."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.harness.http import acta_path, serving
from tests.harness.processes import run_chronica
from tests.harness.running import recorded

from chronica.acta import random_id
from chronica.api import ApiServer, ApiStartError
from chronica.infra.embedded import EmbeddedPostgres
from chronica.infra.settings import Settings

OWNER = {"Chronica-Owner": "ardian"}
MESSAGE = {"kind": "message", "actor_kind": "human", "actor": "ardian", "content": "A table."}
ROUTES = [
    ("POST", "/v1/chronica/c/acta", "ingest"),
    ("GET", "/v1/chronica/c/acta", "read"),
    ("GET", "/v1/chronica/c", "read"),
    ("GET", "/v1/chronica/c/stream", "read"),
    ("GET", "/v1/outcomes/p", "read"),
]


@pytest.fixture
def log(settings: Settings) -> Iterator[Settings]:
    settings = Settings(**{**settings.model_dump(exclude_unset=True), "port": 0})
    with recorded(settings):
        yield settings


def make_key(settings: Settings, *options: str) -> dict[str, Any]:
    done = run_chronica(settings, "keys", "create", "--json", *options)
    assert done.returncode == 0, done.stderr
    key: dict[str, Any] = json.loads(done.stdout)
    return key


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}", **OWNER}


async def until_status(http: httpx.AsyncClient, status: int, headers: dict[str, str]) -> None:
    async with asyncio.timeout(10):
        while (await http.get("/v1/chronica/none", headers=headers)).status_code != status:
            await asyncio.sleep(0.05)


async def test_a_key_opens_its_tenant_by_its_scopes_and_nothing_else(log: Settings) -> None:
    async with serving(log) as http:
        assert (await http.post(acta_path("c"), json=MESSAGE, headers=OWNER)).status_code == 201
        both = make_key(log, "--tenant", "local", "--name", "agents")
        reader = make_key(log, "--tenant", "local", "--scope", "read")
        other = make_key(log, "--tenant", "other")
        operator = make_key(log, "--tenant", "*", "--scope", "admin")
        await until_status(http, 401, OWNER)  # from the first key on it is closed
        for method, path, scope in ROUTES:
            no_key = await http.request(method, path, headers=OWNER)
            assert no_key.status_code == 401
            assert no_key.headers["WWW-Authenticate"] == "Bearer"
            assert no_key.json() == {"detail": "missing bearer token"}
            wrong = await http.request(method, path, headers=bearer("chk_wrong"))
            assert (wrong.status_code, wrong.json()) == (401, {"detail": "invalid api key"})
            refused = await http.request(method, path, headers=bearer(operator["key"]))
            assert (refused.status_code, refused.json()) == (
                403,
                {"detail": f"requires scopes: {scope}"},
            )
            if scope == "ingest":
                refused = await http.request(method, path, headers=bearer(reader["key"]))
                assert refused.status_code == 403
        window = await http.get(acta_path("c"), headers=bearer(reader["key"]))
        assert len(window.json()["acta"]) == 1
        # Another tenant's is as if it were not there, whoever owns it.
        foreign = await http.get(acta_path("c"), headers=bearer(other["key"]))
        missing = await http.get(
            acta_path("c"), headers={**bearer(both["key"]), "Chronica-Owner": "x"}
        )
        assert (foreign.status_code, foreign.content) == (404, missing.content)
        mine = await http.post(acta_path("c"), json=MESSAGE, headers=bearer(other["key"]))
        assert (mine.status_code, mine.json()["seq"]) == (201, 1)
        for path in ("/health", "/ready", "/metrics", "/", "/openapi.json"):
            assert (await http.get(path)).status_code == 200

        listed = json.loads(run_chronica(log, "keys", "list", "--json").stdout)["keys"]
        assert [key["id"] for key in listed] == [k["id"] for k in (both, reader, other, operator)]
        assert both["key"] not in json.dumps(listed)
        done = run_chronica(log, "keys", "revoke", both["key"][:12])
        assert done.returncode == 0, done.stderr
        await until_status(http, 401, bearer(both["key"]))
        assert run_chronica(log, "keys", "revoke", "chk_").returncode == 1


async def test_keys_of_the_settings_work_without_stored_ones(log: Settings) -> None:
    values = log.model_dump(exclude_unset=True)
    async with serving(Settings(**{**values, "api_keys": "k1:fleet:ingest+read"})) as http:
        path = acta_path(random_id())
        assert (await http.post(path, json=MESSAGE, headers=OWNER)).status_code == 401
        assert (await http.post(path, json=MESSAGE, headers=bearer("k1"))).status_code == 201


async def test_a_server_that_others_reach_needs_a_key(log: Settings) -> None:
    values = {**log.model_dump(exclude_unset=True), "host": "0.0.0.0"}
    with pytest.raises(ApiStartError, match="no API key"):
        await ApiServer(Settings(**values)).start()
    make_key(log, "--tenant", "local")
    server = ApiServer(Settings(**values))
    await server.start()
    await server.stop()
    server = ApiServer(Settings(**{**values, "api_keys": "k:t:read"}))
    await server.start()
    await server.stop()


async def test_keys_are_kept_while_postgres_is_away(
    log: Settings, postgres: EmbeddedPostgres
) -> None:
    key = make_key(log, "--tenant", "local")
    chronicum = random_id()
    async with serving(log, bearer(key["key"])) as http:
        await postgres.stop()
        try:
            began = time.monotonic()
            answers = [await http.post(acta_path(chronicum), json=MESSAGE) for _ in range(5)]
            assert [answer.status_code for answer in answers] == [202] * 5
            assert time.monotonic() - began < 15, "appends go on without waiting for Postgres"
            late = await http.get(acta_path(chronicum))
            assert late.status_code in (503, 504)
            new = ApiServer(log)
            await new.start()
            try:
                async with httpx.AsyncClient(base_url=new.url) as unread:
                    answer = await unread.get(acta_path(chronicum), headers=bearer(key["key"]))
                    assert answer.status_code == 503, "what was never read lets nobody in"
                    assert answer.headers["Retry-After"]
            finally:
                await new.stop()
        finally:
            await postgres.start()
        async with asyncio.timeout(60):
            while True:
                answer = await http.get(acta_path(chronicum))
                if answer.status_code == 200:
                    break
                await asyncio.sleep(0.1)
        assert len(answer.json()["acta"]) == 5
