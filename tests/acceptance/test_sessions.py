"""What a role or a database sets does not change what is read and written."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import httpx
import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from tests.harness.running import dsn_of, recorded

from chronica.acta import ActorKind, Actum, ActumKind, Chronicarius
from chronica.api import ApiServer, _backend
from chronica.infra.settings import Settings
from chronica.log import LogRefusedError
from chronica.projections import PostgresUnavailableError, SchemaRefusedError, migrate, within
from chronica.projections import connect as connect_to_postgres
from chronica.store import connect


def alter(dsn: str, setting: str) -> None:
    name = sql.Identifier(str(conninfo_to_dict(dsn)["dbname"]))
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(sql.SQL("ALTER DATABASE {} SET {}").format(name, sql.SQL(setting)))


async def test_times_are_utc_and_texts_are_whole_whatever_the_database_sets(
    settings: Settings,
) -> None:
    dsn = dsn_of(settings)
    for setting in ("timezone = 'Asia/Tokyo'", "datestyle = 'German'", "client_encoding = LATIN1"):
        alter(dsn, setting)
    began = datetime.now(UTC) - timedelta(seconds=5)
    actum = Actum(
        chronicum_id="c",
        kind=ActumKind.MESSAGE,
        actor_kind=ActorKind.HUMAN,
        actor="ardian",
        content="日本 \U0001f600",
    )
    with recorded(settings):
        async with connect(settings=settings) as store:
            stored = await Chronicarius(store).record_actum("ardian", actum)
        assert stored.content == actum.content
        server = ApiServer(settings.model_copy(update={"port": 0}))
        await server.start()
        try:
            async with httpx.AsyncClient(base_url=server.url) as client, asyncio.timeout(20):
                headers = {"Chronica-Owner": "ardian"}
                while True:
                    answer = await client.get("/v1/chronica/c/acta", headers=headers)
                    if answer.status_code == httpx.codes.OK:
                        break
                    await asyncio.sleep(0.1)
        finally:
            await server.stop()
    (read,) = answer.json()["acta"]
    at = datetime.fromisoformat(read["at"])
    assert at == stored.at
    assert began < at < began + timedelta(seconds=60)
    assert read["content"] == actum.content


def test_a_database_that_cannot_hold_every_text_is_refused(postgres_database: str) -> None:
    parts = conninfo_to_dict(postgres_database)
    latin = f"{parts['dbname']}_latin"
    with psycopg.connect(postgres_database, autocommit=True) as conn:
        conn.execute(
            sql.SQL("CREATE DATABASE {} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0").format(
                sql.Identifier(latin)
            )
        )
        try:
            with pytest.raises(SchemaRefusedError, match="encoding is LATIN1"):
                migrate(postgres_database.replace(str(parts["dbname"]), latin))
        finally:
            conn.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(latin)))


async def test_a_peer_that_says_nothing_is_not_waited_for(postgres_database: str) -> None:
    conn = await connect_to_postgres(postgres_database, name="silent")
    with pytest.raises(PostgresUnavailableError, match="did not answer within"):
        await within(conn, conn.execute("SELECT pg_sleep(60)"), timeout_s=0.2)
    assert conn.closed


async def test_a_wait_that_is_cancelled_leaves_nothing_behind(postgres_database: str) -> None:
    conn = await connect_to_postgres(postgres_database, name="silent")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await within(conn, conn.execute("SELECT pg_sleep(60)"), timeout_s=30)
    assert conn.closed


async def test_an_api_whose_writer_cannot_start_keeps_no_connection_open(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = 0

    class Refused:
        def __init__(self, *_: object, **__: object) -> None:
            nonlocal attempts
            attempts += 1

        async def __aenter__(self) -> None:
            raise LogRefusedError("not authorized")

        async def __aexit__(self, *_: object) -> None: ...

    monkeypatch.setattr(_backend, "LogWriter", Refused)
    dsn = dsn_of(settings)
    with recorded(settings):
        async with _backend.Backend(settings, sleep=lambda _s: asyncio.sleep(0)) as backend:
            async with asyncio.timeout(30):
                while attempts < 6:
                    await asyncio.sleep(0.02)
            assert backend.reason == "not authorized"
            with psycopg.connect(dsn, autocommit=True) as conn:
                rows = conn.execute(
                    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                    "AND application_name IN ('chronica reader', 'chronica watermarks')"
                ).fetchall()
    assert rows[0][0] <= 4
