"""The schema: written whole in schema.sql, reached by migrations, refused when it isn't ours."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.harness.running import fresh_database

import chronica.projections as projections
from chronica.infra.embedded import EmbeddedPostgres
from chronica.projections import (
    PostgresUnavailableError,
    SchemaRefusedError,
    check_schema,
    connect,
    migrate,
    schema_head,
)

SCHEMA = Path(projections.__file__).with_name("schema.sql")
OURS = "n.nspname LIKE 'chronica%'"
BOOKKEEPING = "migrations"  # Alembic's own table; schema.sql is about ours
CATALOGS = {
    "schemas": f"""
        SELECT n.nspname, obj_description(n.oid, 'pg_namespace') FROM pg_namespace n WHERE {OURS}
    """,
    "tables": f"""
        SELECT n.nspname, c.relname, c.relkind, c.reloptions, c.relpersistence,
            obj_description(c.oid, 'pg_class')
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE {OURS} AND c.relname NOT LIKE '{BOOKKEEPING}%'
    """,
    "columns": f"""
        SELECT n.nspname, c.relname, a.attname, a.attnum, format_type(a.atttypid, a.atttypmod),
            a.attnotnull, pg_get_expr(d.adbin, d.adrelid), a.attstorage, a.attcompression,
            a.attstattarget, col_description(c.oid, a.attnum)
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        JOIN pg_namespace n ON n.oid = c.relnamespace
        LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        WHERE {OURS} AND a.attnum > 0 AND NOT a.attisdropped
            AND c.relname NOT LIKE '{BOOKKEEPING}%'
    """,
    "indexes": f"""
        SELECT n.nspname, c.relname, pg_get_indexdef(i.indexrelid), i.indisvalid,
            obj_description(c.oid, 'pg_class')
        FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
        JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE {OURS} AND c.relname NOT LIKE '{BOOKKEEPING}%'
    """,
    "constraints": f"""
        SELECT n.nspname, r.relname, c.conname, pg_get_constraintdef(c.oid)
        FROM pg_constraint c JOIN pg_namespace n ON n.oid = c.connamespace
        LEFT JOIN pg_class r ON r.oid = c.conrelid
        WHERE {OURS} AND r.relname IS DISTINCT FROM '{BOOKKEEPING}'
    """,
    "enums": f"""
        SELECT n.nspname, t.typname, e.enumlabel, e.enumsortorder
        FROM pg_enum e JOIN pg_type t ON t.oid = e.enumtypid
        JOIN pg_namespace n ON n.oid = t.typnamespace WHERE {OURS}
    """,
    "functions and triggers": f"""
        SELECT n.nspname, p.proname, pg_get_functiondef(p.oid)
        FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE {OURS}
        UNION ALL
        SELECT tgrelid::regclass::text, tgname, pg_get_triggerdef(oid)
        FROM pg_trigger WHERE NOT tgisinternal
    """,
    "rows": "SELECT generation FROM chronica.live",
}


@pytest.fixture
def other_database(postgres: EmbeddedPostgres) -> Iterator[str]:
    with fresh_database(postgres.dsn) as dsn:
        yield dsn


def shape(dsn: str) -> dict[str, list[str]]:
    """Return all that the catalogs say of our schemas, in an order of its own."""
    with psycopg.connect(dsn) as connection:
        return {
            name: sorted(repr(row) for row in connection.execute(query).fetchall())
            for name, query in CATALOGS.items()
        }


def set_revision(dsn: str, revision: str | None) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("DELETE FROM chronica.migrations")
        if revision is not None:
            connection.execute("INSERT INTO chronica.migrations VALUES (%s)", [revision])


async def checked(dsn: str) -> None:
    connection = await connect(dsn, name="test")
    try:
        await check_schema(connection)
    finally:
        await connection.close()


def test_the_schema_is_all_migrations_replayed(postgres_database: str, other_database: str) -> None:
    migrate(postgres_database)
    with psycopg.connect(other_database) as connection:
        connection.execute(SCHEMA.read_text(encoding="utf-8").encode())
    migrated, written = shape(postgres_database), shape(other_database)
    for name in CATALOGS:
        assert migrated[name] == written[name], f"schema.sql and the migrations differ in {name}"
    assert len(written["tables"]) > 10, "the catalog queries see nothing"


def test_every_schema_table_and_index_of_ours_says_what_it_is_for(postgres_database: str) -> None:
    migrate(postgres_database)
    with psycopg.connect(postgres_database) as connection:
        silent = connection.execute(
            f"""
            SELECT c.oid::regclass::text FROM pg_class c
            JOIN pg_namespace n ON n.oid = c.relnamespace
            LEFT JOIN pg_constraint p ON p.conindid = c.oid AND p.contype = 'p'
            WHERE {OURS} AND c.relkind IN ('r', 'p', 'i', 'I', 'v', 'm', 'S')
                AND c.relname NOT LIKE '{BOOKKEEPING}%'
                AND p.oid IS NULL  -- a primary key says what it is by being one
                AND obj_description(c.oid, 'pg_class') IS NULL
            UNION ALL
            SELECT nspname FROM pg_namespace n
            WHERE {OURS} AND obj_description(oid, 'pg_namespace') IS NULL
            """
        ).fetchall()
    assert silent == []


def test_migrating_again_changes_nothing(postgres_database: str) -> None:
    assert migrate(postgres_database) == schema_head()
    before = shape(postgres_database)
    assert migrate(postgres_database) == schema_head()
    assert shape(postgres_database) == before


def test_many_processes_may_migrate_at_once(postgres_database: str) -> None:
    program = "import sys; from chronica.projections import migrate; print(migrate(sys.argv[1]))"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program, postgres_database], stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    said = [process.communicate(timeout=60)[0].strip() for process in processes]
    assert said == [schema_head()] * 3


def test_many_threads_may_migrate_at_once(postgres_database: str) -> None:
    outcomes: list[Any] = []
    start = threading.Barrier(4)

    def work() -> None:
        start.wait()
        try:
            outcomes.append(migrate(postgres_database))
        except Exception as error:
            outcomes.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == [schema_head()] * 4


async def test_a_migrated_database_is_taken(postgres_database: str) -> None:
    await asyncio.to_thread(migrate, postgres_database)
    await checked(postgres_database)


async def test_an_unmigrated_database_is_refused_with_what_to_do(postgres_database: str) -> None:
    with pytest.raises(SchemaRefusedError, match=r"at schema none.*run `chronica migrate`"):
        await checked(postgres_database)


async def test_a_database_whose_migration_was_taken_back_is_refused(postgres_database: str) -> None:
    await asyncio.to_thread(migrate, postgres_database)
    set_revision(postgres_database, None)
    with pytest.raises(SchemaRefusedError, match=r"at schema none.*run `chronica migrate`"):
        await checked(postgres_database)


async def test_a_newer_database_is_refused_by_start_and_by_migrate(postgres_database: str) -> None:
    await asyncio.to_thread(migrate, postgres_database)
    before = shape(postgres_database)
    set_revision(postgres_database, "9999")
    for refused in (checked(postgres_database), asyncio.to_thread(migrate, postgres_database)):
        with pytest.raises(SchemaRefusedError, match=r"9999.*newer version.*Upgrade Chronica"):
            await refused
    assert shape(postgres_database) == before


def test_a_role_that_may_not_migrate_is_told_so(postgres_database: str) -> None:
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        name = f"reader_{connection.info.backend_pid}"
        connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'reader'".encode())
        try:
            dsn = psycopg.conninfo.make_conninfo(postgres_database, user=name, password="reader")
            with pytest.raises(SchemaRefusedError, match=r"may not migrate.*Grant it CREATE"):
                migrate(dsn)
        finally:
            connection.execute(f"DROP ROLE {name}".encode())


def test_a_postgres_that_is_away_is_said_to_be(postgres_database: str) -> None:
    dsn = psycopg.conninfo.make_conninfo(postgres_database, port=1)
    with pytest.raises(PostgresUnavailableError, match="does not answer"):
        migrate(dsn)
