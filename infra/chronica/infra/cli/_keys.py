"""``chronica keys``: who may call the API. An operator's commands: they speak to Postgres."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from uuid import UUID

import typer
from rich.table import Table

from chronica.acta import dump_json
from chronica.infra.keys import PREFIX_CHARS, Scope, check_scopes, key_digest, new_secret

from ._logs import set_up_logging
from ._running import postgres_dsn
from ._settings import DataDirOption, load_settings
from ._terminal import CommandError, note, output, printable, write_out

if TYPE_CHECKING:
    from chronica.projections import ApiKey

__all__ = ["keys_create", "keys_list", "keys_revoke"]

_T = TypeVar("_T")


def keys_create(
    tenant: Annotated[
        str, typer.Option(help="Whose data it opens; * makes an operator's, with scope admin.")
    ],
    scope: Annotated[
        list[str] | None,
        typer.Option(help="ingest, read or admin; may be repeated (default ingest and read)."),
    ] = None,
    name: Annotated[str, typer.Option(help="What it is for, to tell it by.")] = "",
    *,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
    data_dir: DataDirOption = None,
) -> None:
    """Make an API key and show it once: only its digest is kept.

    From the first key on, the API asks everyone for one, for ever.

    Examples:
      chronica keys create --tenant local --name "support agents"
      chronica keys create --tenant local --scope read --json
      chronica keys create --tenant '*' --scope admin --name operator
    """
    if not tenant:
        raise CommandError("No key was made: the tenant is empty.")
    try:
        scopes: list[Scope] = sorted(check_scopes(tenant, scope or _default_scopes(tenant)))
    except ValueError as error:
        raise CommandError(f"No key was made: {error}.") from error
    secret = new_secret()

    async def create(conn: Any) -> ApiKey:
        from chronica.projections import create_key  # noqa: PLC0415  (heavy)

        return await create_key(
            conn,
            digest=key_digest(secret.encode()),
            prefix=secret[:PREFIX_CHARS],
            tenant=tenant,
            name=name,
            scopes=[str(each) for each in scopes],
        )

    key = _with_postgres(create, data_dir)
    if as_json:
        write_out(dump_json({**_fields(key), "key": secret}))
        return
    write_out(secret)
    note(f"Keep it: it is shown once. `chronica keys revoke {key.id}` takes it back.")


def keys_list(
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
    data_dir: DataDirOption = None,
) -> None:
    """List the stored API keys, oldest first; those of CHRONICA_API_KEYS are not stored.

    Examples:
      chronica keys list
      chronica keys list --tenant local --json
    """
    keys = [key for key in _all(data_dir) if tenant in (None, key.tenant)]
    if as_json:
        write_out(dump_json({"keys": [_fields(key) for key in keys]}))
        return
    table = Table(title="API keys", title_justify="left")
    for column in ("id", "begins with", "tenant", "scopes", "name", "made", "revoked"):
        table.add_column(column, overflow="fold")
    for key in keys:
        table.add_row(
            str(key.id),
            key.prefix,
            printable(key.tenant),
            " ".join(key.scopes),
            printable(key.name),
            f"{key.created_at:%Y-%m-%d %H:%M}",
            "" if key.revoked_at is None else f"{key.revoked_at:%Y-%m-%d %H:%M}",
        )
    output().print(table)


def keys_revoke(
    key: Annotated[str, typer.Argument(help="Its id, or how it begins.")],
    data_dir: DataDirOption = None,
) -> None:
    """Revoke an API key: within seconds it is good for nothing.

    The server asks for keys even when the last one is revoked.

    Examples:
      chronica keys revoke 0198c0de-0000-7000-8000-000000000001
      chronica keys revoke chk_Hb3kQx9z
    """
    found = [each for each in _all(data_dir) if _is_named(each, key)]
    good = [each for each in found if each.revoked_at is None] or found
    if len(good) != 1:
        how_many = "No key is" if not good else f"{len(good)} keys are"
        raise CommandError(
            f"{how_many} named by {key!r}: `chronica keys list` has the ids. Nothing was changed."
        )

    async def revoke(conn: Any) -> bool:
        from chronica.projections import revoke_key  # noqa: PLC0415  (heavy)

        return await revoke_key(conn, good[0].id)

    revoked = _with_postgres(revoke, data_dir)
    note(f"Key {good[0].id} is revoked." if revoked else "It was revoked before.")


def _default_scopes(tenant: str) -> list[str]:
    return ["admin"] if tenant == "*" else ["ingest", "read"]


def _is_named(key: ApiKey, name: str) -> bool:
    try:
        return key.id == UUID(name)
    except ValueError:
        # The whole key names itself too: who has it may well know nothing else.
        return len(name) >= 6 and (key.prefix.startswith(name) or name.startswith(key.prefix))


def _fields(key: ApiKey) -> dict[str, object]:
    return {
        "id": str(key.id),
        "prefix": key.prefix,
        "tenant": key.tenant,
        "name": key.name,
        "scopes": list(key.scopes),
        "created_at": key.created_at.isoformat(),
        "revoked_at": None if key.revoked_at is None else key.revoked_at.isoformat(),
    }


def _all(data_dir: DataDirOption) -> list[ApiKey]:
    from chronica.projections import read_keys  # noqa: PLC0415  (heavy)

    return _with_postgres(read_keys, data_dir)


def _with_postgres(work: Callable[[Any], Awaitable[_T]], data_dir: DataDirOption) -> _T:
    """Do something on a connection to the database, whose schema must be the one we know."""
    from chronica.projections import check_schema, connect  # noqa: PLC0415  (heavy)

    set_up_logging()
    dsn = postgres_dsn(load_settings(data_dir=data_dir))

    async def run() -> _T:
        conn = await connect(dsn, name="chronica keys")
        try:
            await check_schema(conn)
            return await work(conn)
        finally:
            await conn.close()

    return asyncio.run(run())
