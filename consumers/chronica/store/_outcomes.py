"""Outcomes of submissions, asked for by many at once: one statement for all who ask at a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

from chronica.acta import StoreUnavailableError
from chronica.projections import Outcome, Place, Watermarks, read_outcomes
from chronica.store._short_reads import ShortReads

__all__ = ["Outcomes"]

_TOPIC: Final = "acta"
_PLACES_MAX: Final = 2000
"""So many places one statement asks for; its answer holds their acta."""

_Asked = tuple[Place, "asyncio.Future[Outcome | None]"]


class Outcomes:
    """Looks outcomes up, together with everyone who looks at the same moment.

    Args:
        reads: runs the statements.
        watermarks: knows the live generation.
    """

    def __init__(self, reads: ShortReads, watermarks: Watermarks) -> None:
        self._reads = reads
        self._watermarks = watermarks
        self._asked: list[_Asked] = []
        self._asking: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """End what is being asked; whoever waits gets StoreUnavailableError."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    async def look(self, places: Sequence[Place]) -> dict[Place, Outcome]:
        """Return the outcomes of those places that are decided.

        Raises:
            StoreUnavailableError: Postgres does not answer.
        """
        loop = asyncio.get_running_loop()
        asked: list[_Asked] = [(place, loop.create_future()) for place in places]
        self._asked += asked
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        try:
            found = await asyncio.gather(*(future for _place, future in asked))
        finally:
            for _place, future in asked:
                future.cancel()  # nobody waits for it any more
        return {
            place: outcome
            for place, outcome in zip(places, found, strict=True)
            if outcome is not None
        }

    async def _ask(self) -> None:
        while self._asked:
            # Whoever gave up is not asked for: while Postgres is away those would only pile up.
            waiting = [(place, future) for place, future in self._asked if not future.done()]
            asked, self._asked = waiting[:_PLACES_MAX], waiting[_PLACES_MAX:]
            if asked:
                await self._answer(asked)

    async def _answer(self, asked: list[_Asked]) -> None:
        places = list({place for place, _future in asked})
        statement = partial(
            read_outcomes, generation=self._watermarks.generation, topic=_TOPIC, places=places
        )
        try:
            found = await self._reads.run(statement)
        except (Exception, asyncio.CancelledError) as error:
            for _place, future in asked:
                if not future.done():
                    future.set_exception(StoreUnavailableError(str(error)))
                    future.exception()  # it may be that nobody asks for it any more
            if isinstance(error, asyncio.CancelledError):
                raise
        else:
            for place, future in asked:
                if not future.done():
                    future.set_result(found.get(place))
