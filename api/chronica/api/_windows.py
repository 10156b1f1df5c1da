"""The routes that read a chronicum: its context window, and itself."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request, Response

from chronica.acta import (
    ActorKind,
    ActumKind,
    ChronicumNotFoundError,
    WindowQuery,
    normal_query,
    whole_calls,
)
from chronica.api._answers import acta_json, chronicum_json, json_response
from chronica.api._auth import caller_of
from chronica.api._backend import Opened, backend_of
from chronica.api._requests import only_known, owner_of, path_text
from chronica.log import InvalidPositionError, Position
from chronica.projections import Window
from chronica.store import Consistency

__all__ = ["router"]

router = APIRouter(prefix="/v1/chronica", tags=["acta"])

_FRESHNESS = ("position", "consistency")


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
    """Return a context window, oldest first."""
    owner = owner_of(request)
    only_known(request, "last_n", "kind", "actor_kind", "whole_calls", "max_chars", *_FRESHNESS)
    query = normal_query(
        last_n=last_n,
        kinds=kind,
        actor_kinds=actor_kind,
        max_chars=max_chars,
        whole_calls=whole,
    )
    window = await _read(request, chronicum_id, owner, query, position, consistency)
    acta = whole_calls(window.acta) if query.whole_calls else window.acta
    return json_response(acta_json(acta))


@router.get("/{chronicum_id}")
async def get_chronicum(
    request: Request,
    chronicum_id: str,
    position: Annotated[str | None, Query(description="Be no older than this.")] = None,
    consistency: Annotated[Consistency, Query(description="How fresh besides.")] = "session",
) -> Response:
    """Return a chronicum: whose it is, since when, and how far."""
    owner = owner_of(request)
    only_known(request, *_FRESHNESS)
    window = await _read(request, chronicum_id, owner, None, position, consistency)
    assert window.chronicum is not None, "a missing one was answered 404"
    return json_response(chronicum_json(window.chronicum))


async def _read(
    request: Request,
    chronicum_id: str,
    owner: str,
    query: WindowQuery | None,
    position: str | None,
    consistency: Consistency,
) -> Window:
    caller = await caller_of(request, "read")
    chronicum = path_text(chronicum_id)
    tenant, opened = caller.tenant, backend_of(request).opened
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
    try:
        position = Position.parse(token)
    except InvalidPositionError as refused:
        raise HTTPException(422, str(refused)) from None
    if position.log_id != opened.facts.topic_id:
        raise HTTPException(422, "This position is of another log: it says nothing here.")
    partition = opened.reader.partition(tenant, chronicum)
    return max((e.offset for e in position.entries if e.partition == partition), default=-1)
