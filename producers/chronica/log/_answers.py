"""The answers to one call of a writer's, which come in any order and are given in the call's."""

from __future__ import annotations

import asyncio
from typing import Final

from chronica.acta import NotAppendedError
from chronica.log._positions import Position

__all__ = ["Answer", "Answers"]

Answer = Position | Exception

_NONE_YET: Final = NotAppendedError("There is no answer yet.")


class Answers:
    """Places for the answers to one call; ``all`` waits until none is missing."""

    __slots__ = ("_answers", "_done", "_missing")

    def __init__(self) -> None:
        self._answers: list[Answer] = []
        self._missing = 0
        self._done: asyncio.Future[None] | None = None

    def expect(self) -> int:
        """Return the index of one more answer, which is still to come."""
        self._missing += 1
        self._answers.append(_NONE_YET)
        return len(self._answers) - 1

    def add(self, answer: Answer) -> None:
        """Take one more answer that is there already."""
        self._answers.append(answer)

    def put(self, index: int, answer: Answer) -> None:
        """Take an answer that was expected."""
        self._answers[index] = answer
        self._missing -= 1
        if not self._missing and self._done is not None and not self._done.done():
            self._done.set_result(None)

    def not_appended(self, index: int) -> bool:
        """Whether this answer is there and says that nothing was recorded."""
        answer = self._answers[index]
        return answer is not _NONE_YET and isinstance(answer, NotAppendedError)

    async def all(self) -> list[Answer]:
        """Wait until all that are expected are there, and return them."""
        if self._missing:
            self._done = asyncio.get_running_loop().create_future()
            await self._done
        return self._answers
