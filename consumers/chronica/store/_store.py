"""The log store: Chronicarius on Kafka and Postgres.

One round trip decides: a submission is appended, the recorder decides it in the order of the log,
and its outcome is read back by its place.
"""

from __future__ import annotations

from collections.abc import Sequence

from chronica.acta import (
    Actum,
    Chronicum,
    ChronicumExistsError,
    ChronicumNotFoundError,
    Decision,
    InternalError,
    SequenceConflictError,
    WindowQuery,
    dump_json,
    load_json,
    random_id,
)
from chronica.log import Submission
from chronica.projections import ChronicumView, Outcome, StoredActum, Window
from chronica.store._reader import Reader
from chronica.store._submitter import Submitter

__all__ = ["LogStore", "actum_of", "decision_of"]


class LogStore:
    """A Store, IdempotentStore, DecidingStore and GuardedStore on the log, for one tenant.

    Args:
        tenant: whose chronica these are.
        submitter: appends to the log and waits for decisions.
        reader: reads what the recorder made of it.
    """

    def __init__(self, tenant: str, submitter: Submitter, reader: Reader) -> None:
        self._tenant = tenant
        self._submitter = submitter
        self._reader = reader

    async def submit(
        self, owner: str, actum: Actum, *, key: str | None, expected_seq: int | None
    ) -> Decision:
        """Append the actum and wait for its decision (see ``DecidingStore``)."""
        submission = self._actum(owner, actum, key, expected_seq)
        outcome, position = await self._submitter.decided(submission)
        return decision_of(submission, outcome, str(position))

    async def create(self, chronicum: Chronicum) -> Chronicum:
        """Create a chronicum; the log stamps its times (see ``Store``)."""
        submission = Submission(
            type="create",
            id=random_id(),
            tenant=self._tenant,
            chronicum=chronicum.id,
            owner=chronicum.owner_id,
        )
        outcome, _position = await self._submitter.decided(submission)
        if outcome.status == "refused":
            raise ChronicumExistsError(chronicum.id)
        _check_decided(outcome)
        return await self.get(chronicum.id)

    async def record(self, actum: Actum) -> Actum:
        """Append an actum without an owner (see ``Store``)."""
        return await self._record(actum, None)

    async def record_idempotent(self, actum: Actum, key: str) -> Actum:
        """Append an actum without an owner, once a key (see ``IdempotentStore``)."""
        return await self._record(actum, key)

    async def _record(self, actum: Actum, key: str | None) -> Actum:
        submission = self._actum(None, actum, key, None)
        outcome, position = await self._submitter.decided(submission)
        return decision_of(submission, outcome, str(position)).actum

    async def acta(self, chronicum_id: str, query: WindowQuery) -> Sequence[Actum]:
        """Return the window without a guard (see ``Store``)."""
        return await self._window(None, chronicum_id, query)

    async def get(self, chronicum_id: str) -> Chronicum:
        """Return the chronicum without a guard (see ``Store``)."""
        return await self._chronicum(None, chronicum_id)

    async def window(self, owner: str, chronicum_id: str, query: WindowQuery) -> Sequence[Actum]:
        """Return the owner's window (see ``GuardedStore``)."""
        return await self._window(owner, chronicum_id, query)

    async def chronicum(self, owner: str, chronicum_id: str) -> Chronicum:
        """Return the owner's chronicum (see ``GuardedStore``)."""
        return await self._chronicum(owner, chronicum_id)

    async def _window(
        self, owner: str | None, chronicum_id: str, query: WindowQuery
    ) -> Sequence[Actum]:
        window = await self._reader.window(self._tenant, owner, chronicum_id, query)
        _found(chronicum_id, window)
        async with self._reader.streamed(window) as batches:
            return [actum_of(stored) async for batch in batches for stored in batch]

    async def _chronicum(self, owner: str | None, chronicum_id: str) -> Chronicum:
        window = await self._reader.window(self._tenant, owner, chronicum_id, None)
        view = _found(chronicum_id, window)
        return Chronicum(
            id=view.id,
            owner_id=view.owner_id,
            created_at=view.created_at,
            last_activity_at=view.last_activity_at,
            last_seq=view.last_seq,
        )

    def _actum(
        self, owner: str | None, actum: Actum, key: str | None, expected_seq: int | None
    ) -> Submission:
        return Submission(
            type="actum",
            id=actum.id or random_id(),
            tenant=self._tenant,
            chronicum=actum.chronicum_id,
            owner=owner,
            key=key,
            expected_seq=expected_seq,
            kind=actum.kind,
            actor_kind=actum.actor_kind,
            actor=actum.actor,
            content=actum.content,
            call_id=actum.call_id,
            metadata=None if actum.metadata is None else dump_json(actum.metadata),
        )


def decision_of(submission: Submission, outcome: Outcome, position: str) -> Decision:
    """Return the decision that an outcome is, or raise the error that it is.

    Raises:
        ChronicumNotFoundError: foreign or, without an owner, missing.
        SequenceConflictError: the chronicum was not at ``expected_seq``.
        InternalError: the record became a dead letter.
    """
    if outcome.status == "refused":
        if outcome.reason == "sequence_conflict":
            raise SequenceConflictError(
                submission.chronicum,
                expected_seq=submission.expected_seq or 0,
                current_seq=outcome.current_seq or 0,
            )
        raise ChronicumNotFoundError(submission.chronicum)
    _check_decided(outcome)
    if outcome.actum is None:
        raise InternalError(
            f"The submission's id {submission.id!r} was that of a creation before: an id must not "
            "be given twice. Nothing was recorded; retry with another."
        )
    # A resend of our own finds its first copy recorded: that is not a duplicate for the caller.
    duplicate = outcome.status == "duplicate" and outcome.actum.id != submission.id
    return Decision(actum_of(outcome.actum), duplicate, position)


def actum_of(stored: StoredActum) -> Actum:
    """Return a stored actum as the Python interface has it."""
    return Actum(
        chronicum_id=stored.chronicum_id,
        kind=stored.kind,
        actor_kind=stored.actor_kind,
        actor=stored.actor,
        content=stored.content,
        call_id=stored.call_id,
        metadata=None if stored.metadata is None else load_json(stored.metadata),
        id=stored.id,
        at=stored.at,
        seq=stored.seq,
    )


def _check_decided(outcome: Outcome) -> None:
    if outcome.status == "invalid":
        raise InternalError(
            f"The submission is kept as a dead letter ({outcome.reason}): it was not recorded."
        )


def _found(chronicum_id: str, window: Window) -> ChronicumView:
    if window.chronicum is None:
        raise ChronicumNotFoundError(chronicum_id)
    return window.chronicum
