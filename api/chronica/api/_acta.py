"""The routes of acta and chronica."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request, Response

from chronica.acta import (
    ActorKind,
    ActumKind,
    ChronicumNotFoundError,
    InternalError,
    WindowQuery,
    normal_query,
    random_id,
    whole_calls,
)
from chronica.api._answers import acta_json, actum_json, chronicum_json, error, json_response
from chronica.api._backend import Backend, Opened
from chronica.api._requests import body_of, only_known, owner_of, path_text, submission_of
from chronica.log import InvalidPositionError, Position, Submission
from chronica.projections import Outcome, Window
from chronica.store import Consistency

__all__ = ["router"]

router = APIRouter(prefix="/v1/chronica", tags=["acta"])

_FRESHNESS = ("position", "consistency")


def _backend(request: Request) -> Backend:
    backend: Backend = request.app.state.backend
    return backend


@router.post("/{chronicum_id}/acta", status_code=201)
async def post_actum(request: Request, chronicum_id: str) -> Response:
    """Record one actum, and answer when it is decided.

    201 with the recorded actum; 200 with the first one, if its key is known. Every 2xx carries
    the header Chronica-Position.
    """
    owner = owner_of(request)
    only_known(request)
    chronicum = path_text(chronicum_id)
    backend = _backend(request)
    submission = submission_of(
        request,
        await body_of(request),
        tenant=backend.settings.tenant,
        chronicum=chronicum,
        owner=owner,
        submission_id=random_id(),
    )
    outcome, position = await backend.opened.submitter.decided(submission)
    return _answer(submission, outcome, {"Chronica-Position": str(position)})


def _answer(submission: Submission, outcome: Outcome, headers: dict[str, str]) -> Response:
    if outcome.actum is not None and outcome.status in ("recorded", "duplicate"):
        # A resend of our own finds its first copy recorded: for the caller it is the recorded one.
        if outcome.status == "recorded" or outcome.actum.id == submission.id:
            return json_response(actum_json(outcome.actum), 201, headers)
        headers["Idempotency-Replayed"] = "true"
        return json_response(actum_json(outcome.actum), 200, headers)
    if outcome.reason == "sequence_conflict":
        detail = (
            f"The chronicum is at seq {outcome.current_seq}, not {submission.expected_seq}: read "
            "what came in between and try again."
        )
        return error(409, detail, current_seq=outcome.current_seq)
    if outcome.status == "refused":
        raise ChronicumNotFoundError(submission.chronicum)
    raise InternalError(f"The submission is kept as a dead letter ({outcome.reason}).")


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
    chronicum = path_text(chronicum_id)
    backend = _backend(request)
    tenant, opened = backend.settings.tenant, backend.opened
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
