"""Importing: many acta at once through the log, in order within each chronicum.

Acta are appended in the order of the file without waiting for their decisions, so many are under
way together. What counts as recorded or duplicate is what the recorder decided.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterable, Callable
from dataclasses import dataclass, field, replace

from chronica.acta import (
    AppendUnknownError,
    ChronicaError,
    DecidingStore,
    DecisionPendingError,
    InvalidActumError,
    ReadTimeoutError,
    StoreUnavailableError,
    random_id,
)

from ._openai_chat import BadLineError, ChatMapping, KeyedActum

__all__ = ["Importer", "Summary"]

_IN_FLIGHT_MAX = 1_000
_CHARS_A_PERMIT = 65_536
_REFUSALS_KEPT = 20
# Nothing is wrong with the actum: the log or the recorder is away.
_AWAY = (AppendUnknownError, DecisionPendingError, ReadTimeoutError, StoreUnavailableError)


@dataclass
class Summary:
    """What became of the acta of a file.

    Attributes:
        recorded: new in the log, by their kinds.
        duplicate: there already, by their keys.
        empty: messages that make no actum.
        refused: acta of another owner's chronicum, or that can't be stored; and bad lines.
        refusals: the first refusals, as sentences.
    """

    recorded: Counter[str] = field(default_factory=Counter)
    duplicate: int = 0
    empty: int = 0
    refused: int = 0
    refusals: list[str] = field(default_factory=list)
    chronica: set[str] = field(default_factory=set)

    def refuse(self, line: int, reason: str) -> None:
        """Count one more refusal."""
        self.refused += 1
        if len(self.refusals) < _REFUSALS_KEPT:
            self.refusals.append(f"Line {line}: {reason}")


class Importer:
    """Imports one file into a store.

    Args:
        store: decides.
        owner: of the chronica.
        new_id: makes the acta's ids.
    """

    def __init__(
        self, store: DecidingStore, owner: str, *, new_id: Callable[[], str] = random_id
    ) -> None:
        self.summary = Summary()
        self._store = store
        self._owner = owner
        self._new_id = new_id
        self._mapping = ChatMapping(owner)
        self._permits = asyncio.Semaphore(_IN_FLIGHT_MAX)
        self._tasks: set[asyncio.Task[None]] = set()
        self._away: ChronicaError | None = None

    async def run(self, lines: AsyncIterable[bytes], advance: Callable[[], None]) -> None:
        """Import the lines; ``summary`` counts, also when this fails halfway.

        Args:
            lines: JSON, one message each; empty ones are skipped.
            advance: called when all of a line before the next is taken up.

        Raises:
            ChronicaError: the log or the recorder is away; what was recorded so far is kept.
        """
        try:
            number = 0
            async for line in lines:
                number += 1
                for keyed in self._acta(number, line):
                    await self._begin(number, keyed)
                if self._away is not None:
                    break
                advance()
            if self._tasks:
                await asyncio.wait(self._tasks)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._away is not None:
            raise self._away

    def _acta(self, number: int, line: bytes) -> list[KeyedActum]:
        if not line.strip():
            return []
        try:
            acta = self._mapping.acta(line)
        except (BadLineError, InvalidActumError) as error:
            self.summary.refuse(number, str(error))
            return []
        if not acta:
            self.summary.empty += 1
        return acta

    async def _begin(self, number: int, keyed: KeyedActum) -> None:
        # Large contents count for more, so that memory is bounded and not only their number.
        permits = min(_IN_FLIGHT_MAX, 1 + len(keyed.actum.content) // _CHARS_A_PERMIT)
        for _ in range(permits):
            await self._permits.acquire()
        # Tasks begin in the order they are made, and a store appends before it first waits.
        task = asyncio.create_task(self._submit(number, keyed, permits))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _submit(self, number: int, keyed: KeyedActum, permits: int) -> None:
        actum = replace(keyed.actum, id=self._new_id())
        try:
            if self._away is not None:
                return  # an append failed: nothing after it may overtake it
            decision = await self._store.submit(
                self._owner, actum, key=keyed.key, expected_seq=None
            )
        except _AWAY as error:
            self._away = self._away or error
        except ChronicaError as error:
            self.summary.refuse(number, str(error))
        else:
            self.summary.chronica.add(actum.chronicum_id)
            if decision.duplicate:
                self.summary.duplicate += 1
            else:
                self.summary.recorded[actum.kind] += 1
        finally:
            for _ in range(permits):
                self._permits.release()
