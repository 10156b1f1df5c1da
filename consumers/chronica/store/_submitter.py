"""Append and wait for the decision: the one way a submission goes in, from Python and over HTTP."""

from __future__ import annotations

from chronica.acta import DecisionPendingError, ReadTimeoutError, StoreUnavailableError
from chronica.log import LogWriter, Position, Submission
from chronica.projections import Outcome
from chronica.store._reader import Reader

__all__ = ["Submitter"]


class Submitter:
    """Appends submissions and waits for what the recorder decides.

    Args:
        writer: appends to the log.
        reader: reads outcomes.
        decision_wait_s: how long to wait for a decision; then DecisionPendingError.
    """

    def __init__(self, writer: LogWriter, reader: Reader, *, decision_wait_s: float = 10.0) -> None:
        self._writer = writer
        self._reader = reader
        self._decision_wait_s = decision_wait_s

    async def decided(self, submission: Submission) -> tuple[Outcome, Position]:
        """Append a valid submission, wait for its decision and return it with its position.

        Raises:
            NotAppendedError: nothing was recorded.
            AppendUnknownError: it may yet be recorded; retry with ``retry_key``.
            DecisionPendingError: it is kept and will be decided; the wait ran out.
        """
        position = await self._writer.append_submission(submission)
        entry = position.entries[0]
        # Owed from here on: acknowledged is what the log has, decided or not.
        self._reader.owe(entry.partition, entry.offset)
        try:
            outcome = await self._reader.outcome(
                entry.partition, entry.offset, timeout_s=self._decision_wait_s
            )
        except (ReadTimeoutError, StoreUnavailableError) as error:
            raise DecisionPendingError(
                position=str(position),
                submission_id=submission.id,
                retry_key=submission.id if submission.key is None else submission.key,
            ) from error
        return outcome, position
