"""Answers to the steps of the recorder's work, for tests that look at the steps."""

from __future__ import annotations

from typing import Any

from chronica.projections import Batch, DataRefusedError, Found
from chronica.recorder._work import LookUp, PinVerdict, Steps, Write

__all__ = ["Refusing"]


class Refusing:
    """Postgres to the steps' eyes, which refuses every batch with one of these records' acta."""

    def __init__(self, *refused: int, letters_too: bool = False) -> None:
        self._refused = refused
        self._letters_too = letters_too
        self.verdicts: dict[int, tuple[str, str]] = {}
        self.tries: list[int] = []
        self.written: list[Batch] = []
        self.position = 0

    def until_fetch(self, steps: Steps, step: Any) -> Any:
        """Answer the steps until the next one that is none of Postgres', and return that."""
        while isinstance(step, LookUp | Write | PinVerdict):
            try:
                answer = self._answer(step)
            except DataRefusedError as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)
        return step

    def _answer(self, step: LookUp | Write | PinVerdict) -> Any:
        if isinstance(step, LookUp):
            # What each batch must know, it asks for; heads that it wrote itself it knows.
            heads = {h.digest: h for b in self.written for h in b.heads}
            return Found(
                {d: heads[d] for d in step.wanted.heads if d in heads}, {}, {}, self.verdicts
            )
        if isinstance(step, PinVerdict):
            self.verdicts[step.offset] = (step.reason, step.detail)
            return None
        batch = step.batch
        assert step.expected_offset == self.position
        self.tries.append(len(batch.acta) + len(batch.dead_letters))
        offsets = {row.offset for row in batch.acta}
        if self._letters_too:
            offsets |= {row.offset for row in batch.dead_letters}
        if offsets & set(self._refused):
            raise DataRefusedError("SQLSTATE 22000: no")
        self.position = batch.next_offset
        self.written.append(batch)
        return None
