"""What a partition's recorder knows of the past: cached heads, and what one batch looked up."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from uuid import UUID

from chronica.projections import Found, HeadRow, KeptRow
from chronica.recorder._decide import Invalid

__all__ = ["PartitionState"]

_HEADS_MAX = 50_000


class PartitionState:
    """The state that ``decide`` reads, moved on by ``fold`` (implements ``State``).

    Heads outlive a batch, in bounded number, least recently used first out: while this recorder
    holds the partition nobody else changes them. All else is looked up for each batch.
    """

    def __init__(self, heads_max: int = _HEADS_MAX) -> None:
        self._heads_max = heads_max
        self._heads: OrderedDict[UUID, HeadRow | None] = OrderedDict()
        self._firsts: dict[UUID, int] = {}
        self._kept: dict[UUID, KeptRow] = {}
        self._verdicts: dict[int, Invalid] = {}

    def forget(self) -> None:
        """Drop everything: the claim is lost, or what was folded was not written."""
        self._heads.clear()
        self._firsts.clear()
        self._kept.clear()
        self._verdicts.clear()

    def unknown(self, chronica: Iterable[UUID]) -> tuple[UUID, ...]:
        """Return those chronica whose heads must be looked up; keep the others from leaving."""
        unknown: dict[UUID, None] = {}
        for chronicum in chronica:
            if chronicum in self._heads:
                self._heads.move_to_end(chronicum)
            else:
                unknown[chronicum] = None
        return tuple(unknown)

    def begin(self, looked_up: Iterable[UUID], found: Found) -> None:
        """Take in what was looked up for the next batch."""
        for chronicum in looked_up:
            self._heads[chronicum] = found.heads.get(chronicum)
        self._firsts = dict(found.firsts)
        self._kept = dict(found.kept)
        self._verdicts = {
            offset: Invalid(reason, detail) for offset, (reason, detail) in found.verdicts.items()
        }

    def end(self) -> None:
        """The batch is written: let the oldest heads go."""
        while len(self._heads) > self._heads_max:
            self._heads.popitem(last=False)

    def head(self, chronicum: UUID) -> HeadRow | None:
        """Return the chronicum's head, None if it does not exist."""
        return self._heads[chronicum]

    def first(self, dedupe: UUID) -> int | None:
        """Return the seq of the first actum with this dedupe digest."""
        return self._firsts.get(dedupe)

    def kept(self, submission: UUID) -> KeptRow | None:
        """Return the answer kept for this submission."""
        return self._kept.get(submission)

    def verdict(self, offset: int) -> Invalid | None:
        """Return the verdict pinned for the record at this offset."""
        return self._verdicts.get(offset)

    def set_head(self, head: HeadRow) -> None:
        """Move a chronicum on."""
        self._heads[head.digest] = head

    def set_first(self, dedupe: UUID, seq: int) -> None:
        """Remember a recorded actum's dedupe digest."""
        self._firsts[dedupe] = seq

    def keep(self, submission: UUID, answer: KeptRow) -> None:
        """Remember an answer by its submission's id."""
        self._kept[submission] = answer
