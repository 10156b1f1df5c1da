"""Positions: where submissions stand in the log, as an opaque token.

A position is one or more (topic, partition, offset) and the identity of the log they belong to. It
says "this much has been written": a reader that is given one answers with no less.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Entry", "InvalidPositionError", "Position"]

_TOKEN = re.compile(r"1;(?P<log>[0-9a-f]{32});(?P<entries>[a-z]+:\d+:\d+(?:,[a-z]+:\d+:\d+)*)")
_OFFSET_MAX = 2**63 - 1
_PARTITION_MAX = 2**31 - 1
_ENTRIES_MAX = 1000


class InvalidPositionError(ValueError):
    """A position token that this log never gave out."""


class Entry(NamedTuple):
    """One record's place: ``topic`` is its short name (``acta``), without the prefix."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Position:
    """One or more places in one log.

    Attributes:
        log_id: the identity of the log (32 hex digits), so that one of another log is noticed.
        entries: at most one a partition, in order of topic and partition.
    """

    log_id: str
    entries: tuple[Entry, ...]

    @classmethod
    def of(cls, log_id: str, entries: Iterable[Entry]) -> Position:
        """Return the position of several records: the furthest of each partition."""
        furthest: dict[tuple[str, int], Entry] = {}
        for entry in entries:
            place = (entry.topic, entry.partition)
            if place not in furthest or furthest[place].offset < entry.offset:
                furthest[place] = entry
        return cls(log_id, tuple(sorted(furthest.values())))

    def __str__(self) -> str:
        """Return the token; safe in a header, a URL's path and a query."""
        entries = ",".join(f"{e.topic}:{e.partition}:{e.offset}" for e in self.entries)
        return base64.urlsafe_b64encode(f"1;{self.log_id};{entries}".encode()).decode().rstrip("=")

    @classmethod
    def parse(cls, token: str) -> Position:
        """Return the position of a token.

        Raises:
            InvalidPositionError: it is not a token of ours.
        """
        refused = InvalidPositionError("This is not a position: pass one on as it was given.")
        try:
            padded = token.encode("ascii") + b"=" * (-len(token) % 4)
            text = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
        except (UnicodeError, binascii.Error):
            raise refused from None
        match = _TOKEN.fullmatch(text)
        if match is None:
            raise refused
        fields = [entry.split(":") for entry in match["entries"].split(",")]
        if len(fields) > _ENTRIES_MAX or any(len(f[1]) > 10 or len(f[2]) > 19 for f in fields):
            raise refused
        entries = [Entry(topic, int(partition), int(offset)) for topic, partition, offset in fields]
        if any(e.partition > _PARTITION_MAX or e.offset > _OFFSET_MAX for e in entries):
            raise refused
        return cls.of(match["log"], entries)
