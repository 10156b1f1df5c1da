"""What an error of ours is over HTTP: a status, a sentence, and what else helps.

One place for both forms of an answer: a response of its own, and a line in those of a batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from starlette.exceptions import HTTPException

from chronica.acta import (
    AppendUnknownError,
    ChronicaError,
    ChronicumNotFoundError,
    InternalError,
    InvalidActumError,
    InvalidIdempotencyKeyError,
    InvalidOwnerIDError,
    InvalidWindowError,
    NotAppendedError,
    ReadTimeoutError,
    StoreUnavailableError,
)
from chronica.log import LogRefusedError

__all__ = ["Problem", "problem_of"]

_STATUS: Final[dict[type[ChronicaError], int]] = {
    InvalidOwnerIDError: 422,
    InvalidActumError: 422,
    InvalidIdempotencyKeyError: 422,
    InvalidWindowError: 422,
    ChronicumNotFoundError: 404,
    ReadTimeoutError: 504,
    LogRefusedError: 503,
    InternalError: 500,
}
_LATER: Final = {"Retry-After": "1"}


@dataclass(frozen=True, slots=True)
class Problem:
    """An error, as it is answered."""

    status: int
    detail: object
    headers: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, object] = field(default_factory=dict)


def problem_of(error: Exception) -> Problem | None:
    """Return what an error is answered with; None for a fault of the server."""
    match error:
        case HTTPException():
            return Problem(error.status_code, error.detail, error.headers or {})
        case AppendUnknownError():
            return Problem(504, str(error), fields={"retry_key": error.retry_key})
        case NotAppendedError():
            retry_after = str(max(1, round(error.retry_after_s)))
            return Problem(503, str(error), {"Retry-After": retry_after})
        case StoreUnavailableError():
            return Problem(503, str(error), _LATER)
    for kind in type(error).__mro__:
        if kind in _STATUS:
            status = _STATUS[kind]
            return Problem(status, str(error), _LATER if status == 503 else {})
    return None
