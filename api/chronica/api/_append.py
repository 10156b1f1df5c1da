"""The route that appends acta, one or many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, HTTPException, Query, Request, Response

from chronica.acta import (
    ChronicaError,
    ChronicumNotFoundError,
    InternalError,
    NotAppendedError,
    dump_json,
    random_id,
)
from chronica.api._answers import actum_json, error, json_response, queued
from chronica.api._auth import caller_of
from chronica.api._backend import backend_of
from chronica.api._problems import Problem, problem_of
from chronica.api._requests import (
    Body,
    key_of,
    only_known,
    owner_of,
    parse_body,
    parse_item,
    path_text,
    submission_of,
)
from chronica.log import Position, Submission
from chronica.projections import Outcome
from chronica.store import Answer, Submitter

__all__ = ["router"]

router = APIRouter(prefix="/v1/chronica", tags=["acta"])

Acks = Literal["recorded", "logged"]


@router.post("/{chronicum_id}/acta", status_code=201)
async def post_acta(
    request: Request,
    chronicum_id: str,
    acks: Annotated[
        Acks, Query(description="Answer when it is decided, or as soon as it is durable.")
    ] = "recorded",
) -> Response:
    """Record one actum, or a batch ``{"acta": [...]}``.

    One: 201 with the recorded actum; 200 with the first one, if its key is known; 202 if it is
    durable and not decided yet. A batch: 200 with a result for each, in order; it is not atomic.
    Every 2xx by which something is in the log carries the header Chronica-Position.
    """
    caller = await caller_of(request, "ingest")
    owner = owner_of(request)
    only_known(request, "acks")
    chronicum = path_text(chronicum_id)
    submitter = backend_of(request).opened.submitter
    key = key_of(request)

    def submission(body: Body, key: str | None = None) -> Submission:
        return submission_of(
            body,
            key,
            tenant=caller.tenant,
            chronicum=chronicum,
            owner=owner,
            submission_id=random_id(),
        )

    async with request.app.state.bodies.read(request) as body:
        parsed = parse_body(body)
        if isinstance(parsed, Body):
            return await _one(submitter, submission(parsed, key), acks)
        if key is not None:
            raise HTTPException(
                422,
                "A batch takes its keys as fields of its acta, not as a header. Nothing was "
                "recorded.",
            )
        items: list[Submission | Problem] = []
        for source in parsed:
            try:
                items.append(submission(parse_item(source)))
            except (ChronicaError, HTTPException) as refused:
                items.append(_problem(refused))
        return await _many(submitter, items, acks)


async def _one(submitter: Submitter, submission: Submission, acks: Acks) -> Response:
    if acks == "logged":
        position = await submitter.logged(submission)
        return queued(submission.id, str(position))
    outcome, position = await submitter.decided(submission)
    result = _result(submission, outcome)
    if isinstance(result, Problem):
        return error(result.status, result.detail, result.headers, **result.fields)
    status, actum = result
    headers = {"Chronica-Position": str(position)}
    if status == 200:
        headers["Idempotency-Replayed"] = "true"
    return json_response(actum, status, headers)


async def _many(
    submitter: Submitter, items: Sequence[Submission | Problem], acks: Acks
) -> Response:
    submissions = [item for item in items if isinstance(item, Submission)]
    answers = await submitter.submit_many(submissions, wait=acks == "recorded")
    if answers and all(isinstance(answer, NotAppendedError) for answer in answers):
        # Who looks at nothing but the code must hold back as well.
        raise answers[0]  # type: ignore[misc]  # they all are
    entries = [answer[0].entries[0] for answer in answers if isinstance(answer, tuple)]
    headers = {}
    if entries:
        log_id = next(answer[0].log_id for answer in answers if isinstance(answer, tuple))
        headers["Chronica-Position"] = str(Position.of(log_id, entries))
    rest = iter(zip(submissions, answers, strict=True))
    results = [
        _line(item) if isinstance(item, Problem) else _answered(*next(rest)) for item in items
    ]
    return json_response(f'{{"results":[{",".join(results)}]}}', 200, headers)


def _answered(submission: Submission, answer: Answer) -> str:
    """Return one result of a batch as JSON."""
    if isinstance(answer, Exception):
        return _line(_problem(answer))
    position, outcome = answer
    if outcome is None:
        return dump_json({"status": 202, "id": submission.id, "position": str(position)})
    result = _result(submission, outcome)
    if isinstance(result, Problem):
        return _line(result)
    status, actum = result
    return f'{{"status":{status},"actum":{actum}}}'


def _line(problem: Problem) -> str:
    return dump_json({"status": problem.status, "detail": problem.detail, **problem.fields})


def _result(submission: Submission, outcome: Outcome) -> tuple[int, str] | Problem:
    """Return the status and the actum of a decided submission, or why there is none."""
    if outcome.actum is not None and outcome.status in ("recorded", "duplicate"):
        # A resend of our own finds its first copy recorded: for the caller it is the recorded one.
        mine = outcome.status == "recorded" or outcome.actum.id == submission.id
        return 201 if mine else 200, actum_json(outcome.actum)
    if outcome.reason == "sequence_conflict":
        detail = (
            f"The chronicum is at seq {outcome.current_seq}, not {submission.expected_seq}: read "
            "what came in between and try again."
        )
        return Problem(409, detail, fields={"current_seq": outcome.current_seq})
    if outcome.status == "refused":
        return _problem(ChronicumNotFoundError(submission.chronicum))
    return _problem(InternalError(f"The submission is kept as a dead letter ({outcome.reason})."))


def _problem(problem: Exception) -> Problem:
    found = problem_of(problem)
    if found is None:
        raise problem
    return found
