"""Stored API keys: made, listed, revoked, and read by the processes that ask for them.

Each change commits durably and is notified, so that every process knows it at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import psycopg
from psycopg import AsyncConnection

from chronica.projections._claims import durable
from chronica.projections._errors import sorted_error
from chronica.projections._text import from_postgres, to_postgres

__all__ = ["KEYS_CHANNEL", "ApiKey", "create_key", "read_keys", "revoke_key"]

KEYS_CHANNEL: Final = "chronica_keys"
"""NOTIFY channel: some key was made or revoked."""

_COLUMNS = "id, digest, prefix, tenant, name, scopes, created_at, revoked_at"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A stored key.

    Attributes:
        id: names it, for revoking it.
        digest: sha256 of its secret.
        prefix: the secret's first characters, to tell it by.
        tenant: whose it is; ``*`` for an operator's.
        name: what its maker called it.
        scopes: what it lets its bearer do.
        created_at: when it was made.
        revoked_at: since when it is good for nothing; None while it is good.
    """

    id: UUID
    digest: bytes
    prefix: str
    tenant: str
    name: str
    scopes: tuple[str, ...]
    created_at: datetime
    revoked_at: datetime | None


async def create_key(
    conn: AsyncConnection[Any],
    *,
    digest: bytes,
    prefix: str,
    tenant: str,
    name: str,
    scopes: list[str],
) -> ApiKey:
    """Store a key and return it.

    Raises:
        PostgresUnavailableError: Postgres did not answer; the key may or may not be stored.
    """
    try:
        async with durable(conn):
            cursor = await conn.execute(
                "INSERT INTO chronica.api_keys (digest, prefix, tenant, name, scopes) "
                f"VALUES (%s, %s, %s, %s, %s) RETURNING {_COLUMNS}",
                [digest, prefix, to_postgres(tenant), to_postgres(name), scopes],
            )
            row = await cursor.fetchone()
            await conn.execute(f"NOTIFY {KEYS_CHANNEL}")
    except psycopg.Error as error:
        raise sorted_error(error) from error
    assert row is not None, "inserted just now"
    return _key(row)


async def read_keys(conn: AsyncConnection[Any]) -> list[ApiKey]:
    """Return all keys, revoked ones too, oldest first.

    Raises:
        PostgresUnavailableError: Postgres did not answer.
    """
    try:
        cursor = await conn.execute(
            f"SELECT {_COLUMNS} FROM chronica.api_keys ORDER BY created_at, id"
        )
        return [_key(row) for row in await cursor.fetchall()]
    except psycopg.Error as error:
        raise sorted_error(error) from error


async def revoke_key(conn: AsyncConnection[Any], key_id: UUID) -> bool:
    """Revoke a key; tell whether it was good until now.

    Raises:
        PostgresUnavailableError: Postgres did not answer; the key may or may not be revoked.
    """
    try:
        async with durable(conn):
            cursor = await conn.execute(
                "UPDATE chronica.api_keys SET revoked_at = now() "
                "WHERE id = %s AND revoked_at IS NULL",
                [key_id],
            )
            await conn.execute(f"NOTIFY {KEYS_CHANNEL}")
    except psycopg.Error as error:
        raise sorted_error(error) from error
    return cursor.rowcount == 1


def _key(row: tuple[Any, ...]) -> ApiKey:
    key_id, digest, prefix, tenant, name, scopes, created_at, revoked_at = row
    return ApiKey(
        key_id,
        bytes(digest),
        prefix,
        from_postgres(tenant),
        from_postgres(name),
        tuple(scopes),
        created_at,
        revoked_at,
    )
