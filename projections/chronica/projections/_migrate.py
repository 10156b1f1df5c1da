"""Bringing a database to the schema this version needs (Alembic does the bookkeeping)."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import AsyncConnection

from chronica.projections._errors import PostgresUnavailableError, SchemaRefusedError

__all__ = ["REVISIONS", "check_schema", "migrate", "read_revision", "schema_head"]

_POSTGRES_VERSION_MIN = 150_000
_THERE_QUERY = "SELECT to_regclass('chronica.migrations') IS NOT NULL"
_REVISION_QUERY = "SELECT version_num FROM chronica.migrations"
REVISIONS = ("0001", "0002")
"""All revisions there are migrations to, oldest first (a test compares)."""


def schema_head() -> str:
    """Return the revision this version of the code needs."""
    return REVISIONS[-1]


def migrate(dsn: str) -> str:
    """Run the migrations that are missing and return the revision; safe to run twice at once.

    Blocking: run it in a thread.

    Raises:
        PostgresUnavailableError: Postgres can't be reached.
        SchemaRefusedError: Postgres is too old, the role may not create schemas, or the database
            is of a newer version.
    """
    from chronica.projections._alembic import upgrade  # noqa: PLC0415  (slow, and seldom needed)

    try:
        with psycopg.connect(dsn, client_encoding="UTF8") as connection:
            encoding = connection.info.parameter_status("server_encoding")
            _check_server(connection.info.server_version, encoding)
            there = connection.execute(_THERE_QUERY).fetchone()
            revision = None
            if there is not None and there[0]:
                revision = _revision(connection.execute(_REVISION_QUERY).fetchone())
        _check_known(revision)
        upgrade(dsn)
    except psycopg.errors.InsufficientPrivilege as error:
        raise SchemaRefusedError(
            f"The database role may not migrate: {str(error).strip()}. Grant it CREATE on the "
            "database, or run `chronica migrate` as its owner."
        ) from error
    except psycopg.OperationalError as error:
        raise PostgresUnavailableError(f"Postgres does not answer: {str(error).strip()}") from error
    return schema_head()


def _revision(row: tuple[Any, ...] | None) -> str | None:
    return None if row is None or row[0] is None else str(row[0])


def _check_server(version: int, encoding: str | None) -> None:
    if version < _POSTGRES_VERSION_MIN:
        raise SchemaRefusedError(
            f"Postgres {version // 10_000} is too old: version 15 or later is needed."
        )
    if encoding != "UTF8":
        raise SchemaRefusedError(
            f"The database's encoding is {encoding}, which can't hold every text: make one with "
            "CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0. Nothing was changed."
        )


def _check_known(revision: str | None) -> None:
    if revision is not None and revision not in REVISIONS:
        raise SchemaRefusedError(
            f"The database is at schema {revision}, which this version does not know: it was "
            "migrated by a newer version. Upgrade Chronica; nothing was changed."
        )


async def read_revision(conn: AsyncConnection[Any]) -> str | None:
    """Return the database's revision, None if it was never migrated."""
    there = await (await conn.execute(_THERE_QUERY)).fetchone()
    if there is None or not there[0]:
        return None
    return _revision(await (await conn.execute(_REVISION_QUERY)).fetchone())


async def check_schema(conn: AsyncConnection[Any]) -> None:
    """Check that the database is at the revision this version needs.

    Raises:
        SchemaRefusedError: it isn't.
    """
    revision = await read_revision(conn)
    if revision != schema_head():
        _check_known(revision)
        raise SchemaRefusedError(
            f"The database is at schema {revision or 'none'}, this version needs {schema_head()}: "
            "run `chronica migrate`."
        )
