"""``chronica window``: the context window of a chronicum."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from chronica.acta import ActorKind, Actum, ActumKind, Chronicarius, dump_json

from ._logs import set_up_logging
from ._running import resolved
from ._settings import DataDirOption, TenantOption, load_settings
from ._terminal import counted_acta, output, write_out
from ._views import actum_fields, window_table

__all__ = ["window"]


def window(
    *,
    chronicum: Annotated[str, typer.Argument(help="Id of the chronicum.")],
    owner: Annotated[str, typer.Option(help="Who owns it; nobody else sees it.")],
    last_n: Annotated[
        int, typer.Option("--last-n", help="Only the most recent N that pass the filters; 0 = all.")
    ] = 0,
    kind: Annotated[
        list[ActumKind] | None, typer.Option(help="Only this kind (may be repeated).")
    ] = None,
    actor_kind: Annotated[
        list[ActorKind] | None, typer.Option(help="Only by this kind of actor (may be repeated).")
    ] = None,
    whole_calls: Annotated[
        bool,
        typer.Option("--whole-calls", help="Leave out tool calls whose other half isn't in it."),
    ] = False,
    max_chars: Annotated[
        int | None,
        typer.Option(min=0, help="The newest whose contents have N characters at most."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines, as over HTTP.")] = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Show the context window of a chronicum, oldest first.

    Long contents are shortened in the table; --json gives them whole.

    Examples:
      chronica window dinner-friday --owner ardian --last-n 20
      chronica window dinner-friday --owner ardian --kind message --json
    """
    set_up_logging()
    settings = resolved(load_settings(data_dir=data_dir, tenant=tenant))

    async def read() -> list[Actum]:
        async with Chronicarius.connect(tenant=settings.tenant, settings=settings) as chronicarius:
            return await chronicarius.get_acta(
                owner,
                chronicum,
                last_n=last_n,
                kinds=kind,
                actor_kinds=actor_kind,
                whole_calls=whole_calls,
                max_chars=max_chars,
            )

    acta = asyncio.run(read())
    if as_json:
        write_out(dump_json({"acta": [actum_fields(actum) for actum in acta]}))
    else:
        output().print(window_table(f"{chronicum}: {counted_acta(len(acta))}", acta))
