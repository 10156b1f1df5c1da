"""Rows of the table: what was measured, against what, and whether it holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["Reach", "Row", "Spec", "at_least", "at_most", "median", "percentile"]


@dataclass(frozen=True, slots=True)
class Reach:
    """What the ratio has to be for its row to hold."""

    side: Literal[">=", "<="]
    bound: float

    def holds(self, ratio: float) -> bool:
        """Tell whether a ratio is on the right side; one that is no number is on neither."""
        return ratio >= self.bound if self.side == ">=" else ratio <= self.bound

    def __str__(self) -> str:
        return f"{self.side} {self.bound:g}"


def at_least(bound: float) -> Reach:
    """Return the reach of what should be large."""
    return Reach(">=", bound)


def at_most(bound: float) -> Reach:
    """Return the reach of what should be small."""
    return Reach("<=", bound)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table, and one object of ``build/bench.json``.

    Attributes:
        name: what was measured.
        value: the median of its repetitions, None if it could not be measured.
        unit: of both values.
        against: the peer or the limit.
        against_value: its value in the same run.
        ratio: value by against_value.
        reach: what the ratio has to be.
        holds: whether it is; never of a row that could not be measured.
        note: what a reader must know besides, or why there is no value.
    """

    name: str
    value: float | None
    unit: str
    against: str
    against_value: float | None
    ratio: float | None
    reach: str
    holds: bool
    note: str = ""


@dataclass(frozen=True, slots=True)
class Spec:
    """A row before it is measured, so that one that can't be is in the table all the same."""

    name: str
    unit: str
    against: str
    reach: Reach
    note: str = ""

    def measured(self, value: float, against_value: float, note: str = "") -> Row:
        """Return the row of two values."""
        ratio = value / against_value if against_value else math.nan
        return Row(
            name=self.name,
            value=round(value, 3),
            unit=self.unit,
            against=self.against,
            against_value=round(against_value, 3),
            ratio=round(ratio, 3) if math.isfinite(ratio) else None,
            reach=str(self.reach),
            holds=self.reach.holds(ratio),
            note=" ".join(filter(None, (self.note, note))),
        )

    def missing(self, reason: str, value: float | None = None) -> Row:
        """Return the row without its ratio, for this reason."""
        return Row(
            name=self.name,
            value=None if value is None else round(value, 3),
            unit=self.unit,
            against=self.against,
            against_value=None,
            ratio=None,
            reach=str(self.reach),
            holds=False,
            note=f"Not measured: {reason}",
        )


def median(values: Sequence[float]) -> float:
    """Return the middle value; of an even number of values the lower one of the middle two."""
    return percentile(values, 50)


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that so many percent of all values don't exceed (nearest rank)."""
    ranked = sorted(values)
    return ranked[max(math.ceil(len(ranked) * percent / 100), 1) - 1]
