"""The rules, on one screen: what becomes of a submission, given what was recorded before it.

Pure: no clock, no randomness, no I/O. The same log therefore gives the same rows, for ever, and a
crash never changes an answer that was given (rules 3.3 and 3.5).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from chronica.log import Submission
from chronica.projections import HeadRow, KeptRow

__all__ = [
    "Created",
    "Decision",
    "Digests",
    "Duplicate",
    "Invalid",
    "Recorded",
    "Refused",
    "State",
    "decide",
]


@dataclass(frozen=True, slots=True)
class Recorded:
    """It is the chronicum's next actum; the chronicum is created if it is the first."""

    seq: int


@dataclass(frozen=True, slots=True)
class Created:
    """The chronicum exists from here on, without acta."""

    again: bool = False


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The stored actum ``of`` this seq is the answer; the new payload is dropped."""

    of: int


@dataclass(frozen=True, slots=True)
class Refused:
    """It consumes no key and no seq, and creates nothing.

    ``kept``: it could turn, so a later copy of the submission is answered from memory.
    """

    reason: str
    current_seq: int | None = None
    kept: bool = False


@dataclass(frozen=True, slots=True)
class Invalid:
    """It can't be decided: a dead letter."""

    reason: str
    detail: str


Decision = Recorded | Created | Duplicate | Refused | Invalid


@dataclass(frozen=True, slots=True)
class Digests:
    """The names that a submission's past is looked up by.

    ``dedupe`` is that of its key, else of its own id: every submission has one.
    """

    chronicum: UUID
    submission: UUID
    dedupe: UUID


class State(Protocol):
    """What was recorded before: the chronicum, its keys, and the answers kept by id."""

    def head(self, chronicum: UUID) -> HeadRow | None: ...
    def first(self, dedupe: UUID) -> int | None: ...
    def kept(self, submission: UUID) -> KeptRow | None: ...


def decide(  # noqa: PLR0911  (one return a rule)
    state: State, submission: Submission | Invalid, digests: Digests | None, verdict: Invalid | None
) -> Decision:
    """Return what becomes of a submission; the order of the checks is the contract."""
    if verdict is not None:
        return verdict
    if isinstance(submission, Invalid) or digests is None:
        assert isinstance(submission, Invalid), "what could be decoded has digests"
        return submission
    kept = state.kept(digests.submission)
    if kept is not None:
        if kept.outcome == "recorded":
            return Created(again=True)
        return Refused(kept.reason or "", kept.current_seq)
    head = state.head(digests.chronicum)
    if submission.type == "create":
        return Created() if head is None else Refused("exists")
    if head is not None and submission.owner not in (None, head.owner):
        return Refused("not_found")
    first = state.first(digests.dedupe)
    if first is not None:
        return Duplicate(first)
    if head is None and submission.owner is None:
        return Refused("missing", kept=True)
    current_seq = 0 if head is None else head.last_seq
    if submission.expected_seq not in (None, current_seq):
        return Refused("sequence_conflict", current_seq, kept=True)
    return Recorded(current_seq + 1)
