"""The routes that read a chronicum: its context window, and itself."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from chronica.acta import (
    ActorKind,
    ActumKind,
    ChronicumNotFoundError,
    WindowQuery,
    normal_query,
)
from chronica.api._answers import acta_json, chronicum_json, json_response
from chronica.api._auth import caller_of
from chronica.api._backend import Opened, backend_of
from chronica.api._long_answers import LongAnswer
from chronica.api._positions import position_of
from chronica.api._requests import only_known, owner_of, path_text
from chronica.projections import Window
from chronica.store import Consistency

__all__ = ["router"]

router = APIRouter(prefix="/v1/chronica", tags=["acta"])

_FRESHNESS = ("position", "consistency")
# An old answer is a wrong one, and none but its owner may have it.
_NOT_STORED = {"Cache-Control": "no-store"}


@router.get("/{chronicum_id}/acta")
async def get_window(
    request: Request,
    chronicum_id: str,
    last_n: Annotated[int, Query(description="The most recent n; 0 or less: no limit.")] = 0,
    kind: Annotated[list[ActumKind] | None, Query(description="Only these; repeatable.")] = None,
    actor_kind: Annotated[list[ActorKind] | None, Query(description="Likewise.")] = None,
    whole: Annotated[  # noqa: FBT002  (a query parameter has no position)
        bool, Query(alias="whole_calls", description="No tool call without its other half.")
    ] = False,
    max_chars: Annotated[
        int | None, Query(ge=0, description="The newest whose contents fit, in code points.")
    ] = None,
    position: Annotated[str | None, Query(description="Be no older than this.")] = None,
    consistency: Annotated[Consistency, Query(description="How fresh besides.")] = "session",
) -> Response:
    """Return a context window, oldest first.

    One of more than about 1 MiB comes in chunks, as it is read: an answer that breaks off in the
    midst was cut, and must be asked for again.
    """
    caller = await caller_of(request, "read")
    owner = owner_of(request)
    only_known(request, "last_n", "kind", "actor_kind", "whole_calls", "max_chars", *_FRESHNESS)
    query = normal_query(
        last_n=last_n,
        kinds=kind,
        actor_kinds=actor_kind,
        max_chars=max_chars,
        whole_calls=whole,
    )
    window = await _read(request, caller.tenant, chronicum_id, owner, query, position, consistency)
    if window.rest is not None:
        reader = backend_of(request).opened.reader
        return LongAnswer(reader.streamed(window), headers=_NOT_STORED)
    return json_response(acta_json(window.acta), headers=_NOT_STORED)


@router.get("/{chronicum_id}")
async def get_chronicum(
    request: Request,
    chronicum_id: str,
    position: Annotated[str | None, Query(description="Be no older than this.")] = None,
    consistency: Annotated[Consistency, Query(description="How fresh besides.")] = "session",
) -> Response:
    """Return a chronicum: whose it is, since when, and how far."""
    caller = await caller_of(request, "read")
    owner = owner_of(request)
    only_known(request, *_FRESHNESS)
    window = await _read(request, caller.tenant, chronicum_id, owner, None, position, consistency)
    assert window.chronicum is not None, "a missing one was answered 404"
    return json_response(chronicum_json(window.chronicum), headers=_NOT_STORED)


async def _read(
    request: Request,
    tenant: str,
    chronicum_id: str,
    owner: str,
    query: WindowQuery | None,
    position: str | None,
    consistency: Consistency,
) -> Window:
    chronicum = path_text(chronicum_id)
    opened = backend_of(request).opened
    window = await opened.reader.window(
        tenant,
        owner,
        chronicum,
        query,
        offset=_offset(opened, tenant, chronicum, position),
        consistency=consistency,
    )
    if window.chronicum is None:
        raise ChronicumNotFoundError(chronicum)
    return window


def _offset(opened: Opened, tenant: str, chronicum: str, token: str | None) -> int:
    """Return what a position asks of the chronicum's partition, -1 for nothing."""
    if token is None:
        return -1
    entries = position_of(opened, token).entries
    partition = opened.reader.partition(tenant, chronicum)
    return max((e.offset for e in entries if e.partition == partition), default=-1)
