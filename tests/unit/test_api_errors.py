"""Every error of the Python interface has its answer over HTTP."""

from __future__ import annotations

import json

import pytest
from starlette.requests import Request

import chronica.acta
from chronica.acta import (
    AppendUnknownError,
    ChronicaError,
    ChronicumExistsError,
    ChronicumNotFoundError,
    DecisionPendingError,
    EmptyOwnerIDError,
    InternalError,
    InvalidActumError,
    InvalidIdempotencyKeyError,
    InvalidWindowError,
    NotAppendedError,
    ReadTimeoutError,
    SequenceConflictError,
    StoreUnavailableError,
)
from chronica.api._app import _answer_problem
from chronica.log import LogRefusedError, LogUnavailableError

REQUEST = Request({"type": "http", "method": "GET", "headers": []})

ANSWERS: list[tuple[ChronicaError, int]] = [
    (EmptyOwnerIDError(), 422),
    (InvalidActumError("actor", "must not be empty"), 422),
    (InvalidIdempotencyKeyError("empty"), 422),
    (InvalidWindowError("contradiction"), 422),
    (ChronicumNotFoundError("c"), 404),
    (NotAppendedError("away", retry_after_s=2.4), 503),
    (AppendUnknownError("unknown", retry_key="k"), 504),
    (DecisionPendingError(position="p", submission_id="i", retry_key="k"), 202),
    (ReadTimeoutError("late"), 504),
    (StoreUnavailableError("away"), 503),
    (LogUnavailableError("away"), 503),
    (LogRefusedError("not authorized"), 503),
    (InternalError("dead letter"), 500),
]


@pytest.mark.parametrize(("error", "status"), ANSWERS, ids=lambda value: type(value).__name__)
async def test_an_error_has_its_status_and_a_sentence(error: ChronicaError, status: int) -> None:
    answer = await _answer_problem(REQUEST, error)
    assert answer.status_code == status
    body = json.loads(bytes(answer.body))
    assert body.get("detail") or body["status"] == "queued"


async def test_what_helps_a_retry_is_said() -> None:
    away = await _answer_problem(REQUEST, NotAppendedError("away", retry_after_s=2.4))
    assert away.headers["Retry-After"] == "2"
    unknown = await _answer_problem(REQUEST, AppendUnknownError("?", retry_key="k"))
    assert json.loads(bytes(unknown.body))["retry_key"] == "k"
    pending = DecisionPendingError(position="p", submission_id="i", retry_key="k")
    queued = await _answer_problem(REQUEST, pending)
    assert queued.headers["Chronica-Position"] == "p"
    assert json.loads(bytes(queued.body)) == {"status": "queued", "id": "i", "position": "p"}


def test_no_error_of_the_interface_is_forgotten() -> None:
    elsewhere = {
        ChronicumExistsError,  # Chronicarius answers it by asking again
        SequenceConflictError,  # a refusal is answered from its outcome, with current_seq
        chronica.acta.ExpectedSeqUnsupportedError,  # never of the log store
        chronica.acta.IdempotencyUnsupportedError,
        chronica.acta.StoreNotInstalledError,
        chronica.acta.InvalidOwnerIDError,  # as its subclass
        ChronicaError,
    }
    answered = {type(error) for error, _status in ANSWERS} | elsewhere
    exported = {
        value
        for name in chronica.acta.__all__
        if isinstance(value := getattr(chronica.acta, name), type)
        and issubclass(value, ChronicaError)
    }
    assert exported <= answered
