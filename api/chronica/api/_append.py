"""The routes that append acta."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from chronica.acta import ChronicumNotFoundError, InternalError, random_id
from chronica.api._answers import actum_json, error, json_response
from chronica.api._auth import caller_of
from chronica.api._backend import backend_of
from chronica.api._requests import body_of, only_known, owner_of, path_text, submission_of
from chronica.log import Submission
from chronica.projections import Outcome

__all__ = ["router"]

router = APIRouter(prefix="/v1/chronica", tags=["acta"])


@router.post("/{chronicum_id}/acta", status_code=201)
async def post_actum(request: Request, chronicum_id: str) -> Response:
    """Record one actum, and answer when it is decided.

    201 with the recorded actum; 200 with the first one, if its key is known. Every 2xx carries
    the header Chronica-Position.
    """
    caller = await caller_of(request, "ingest")
    owner = owner_of(request)
    only_known(request)
    chronicum = path_text(chronicum_id)
    backend = backend_of(request)
    submission = submission_of(
        request,
        await body_of(request),
        tenant=caller.tenant,
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
