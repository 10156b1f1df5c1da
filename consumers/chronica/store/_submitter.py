"""Append and wait for the decision: the one way submissions go in, from Python and over HTTP."""

from __future__ import annotations

from collections.abc import Sequence

from chronica.acta import DecisionPendingError, ReadTimeoutError, StoreUnavailableError
from chronica.log import LogWriter, Position, Submission
from chronica.projections import Outcome, Place
from chronica.store._reader import Reader

__all__ = ["Answer", "Submitter"]

Answer = tuple[Position, Outcome | None] | Exception
"""Where a submission stands and what became of it (None: not decided yet), or why it doesn't."""


class Submitter:
    """Appends submissions and waits for what the recorder decides.

    Args:
        writer: appends to the log.
        reader: reads outcomes.
        decision_wait_s: how long to wait for a decision.
        away_wait_s: how long while Postgres is known to be away, by default as long.
    """

    def __init__(
        self,
        writer: LogWriter,
        reader: Reader,
        *,
        decision_wait_s: float = 10.0,
        away_wait_s: float | None = None,
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._decision_wait_s = decision_wait_s
        self._away_wait_s = decision_wait_s if away_wait_s is None else away_wait_s

    @property
    def writer(self) -> LogWriter:
        """What it appends with."""
        return self._writer

    async def logged(self, submission: Submission) -> Position:
        """Append a valid submission, and return its position as soon as it is durable.

        Raises:
            NotAppendedError: nothing was recorded.
            AppendUnknownError: it may yet be recorded; retry with ``retry_key``.
        """
        position = await self._writer.append_submission(submission)
        self._owe(position)
        return position

    async def decided(self, submission: Submission) -> tuple[Outcome, Position]:
        """Append a valid submission, wait for its decision and return it with its position.

        Raises:
            NotAppendedError: nothing was recorded.
            AppendUnknownError: it may yet be recorded; retry with ``retry_key``.
            DecisionPendingError: it is kept and will be decided; the wait ran out.
        """
        position = await self.logged(submission)
        place = self._place(position)
        outcome = (await self._outcomes([place])).get(place)
        if outcome is None:
            raise DecisionPendingError(
                position=str(position),
                submission_id=submission.id,
                retry_key=submission.id if submission.key is None else submission.key,
            )
        return outcome, position

    async def submit_many(
        self, submissions: Sequence[Submission], *, wait: bool = True
    ) -> list[Answer]:
        """Append valid submissions in their order, and wait for all their decisions together.

        Args:
            submissions: each gets an answer of its own, in this order.
            wait: False: answer as soon as they are durable, all as not decided.
        """
        appended = await self._writer.append_submissions(submissions)
        positions = [answer for answer in appended if isinstance(answer, Position)]
        for position in positions:
            self._owe(position)
        outcomes: dict[Place, Outcome] = {}
        if wait and positions:
            outcomes = await self._outcomes([self._place(position) for position in positions])
        return [
            (answer, outcomes.get(self._place(answer))) if isinstance(answer, Position) else answer
            for answer in appended
        ]

    async def _outcomes(self, places: Sequence[Place]) -> dict[Place, Outcome]:
        connected = self._reader.watermarks.connected
        wait_s = self._decision_wait_s if connected else self._away_wait_s
        try:
            return await self._reader.outcomes(places, timeout_s=wait_s)
        except (ReadTimeoutError, StoreUnavailableError):
            return {}  # they are in the log, and will be decided

    def _owe(self, position: Position) -> None:
        # Owed from here on: acknowledged is what the log has, decided or not.
        self._reader.owe(*self._place(position))

    @staticmethod
    def _place(position: Position) -> Place:
        entry = position.entries[0]
        return entry.partition, entry.offset
