"""A model of Postgres, as far as the recorder leans on it.

It keeps the unique constraints of ``schema.sql``, transactions that happen whole or not at all,
advisory locks that go with their session, and commits that are not synced: a crash takes back the
last of them, never one before a durable commit (WAL is flushed in order), and ends all sessions.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from chronica.projections import (
    Batch,
    ClaimLostError,
    ClaimRow,
    DataRefusedError,
    Found,
    KeptRow,
    PostgresUnavailableError,
    Wanted,
)

__all__ = ["REFUSED", "Postgres", "Session"]

REFUSED = "\N{SKULL AND CROSSBONES}"
"""A text with this character is data that this Postgres refuses."""

GENERATION = 1
TABLES = ("verdicts", "chronica", "acta", "outcomes", "dead_letters")
INDEXES = ("digest", "dedupe", "place", "kept")

Table = dict[Any, Any]
Undo = tuple[Table, Any, Any]


@dataclass(eq=False)
class Session:
    """One connection as the server sees it."""

    alive: bool = True


class Postgres:
    """The database.

    Args:
        partitions: of the topic that is pinned.
        compares: whether a batch compares before it sets; only a broken model does not.
        atomic: whether a batch is one transaction; only a broken model does not.
    """

    def __init__(self, partitions: int, *, compares: bool = True, atomic: bool = True) -> None:
        self.claims: dict[int, ClaimRow] = {
            n: ClaimRow(GENERATION, n, 0, 0, -1, -1, b"") for n in range(partitions)
        }
        self.tables: dict[str, Table] = {name: {} for name in TABLES}
        self.indexes: dict[str, Table] = {name: {} for name in INDEXES}
        self.locks: dict[int, Session] = {}
        self.sessions: list[Session] = []
        self.changes = 0
        self._compares = compares
        self._atomic = atomic
        self._open: list[Undo] = []
        self._unsynced: list[list[Undo]] = []

    # sessions

    def connect(self) -> Session:
        session = Session()
        self.sessions.append(session)
        return session

    def end(self, session: Session) -> None:
        """The server notices that a client is gone: its locks are free."""
        session.alive = False
        self.sessions = [s for s in self.sessions if s is not session]
        self.locks = {n: holder for n, holder in self.locks.items() if holder is not session}

    @property
    def unsynced(self) -> int:
        """How many commits a crash could take back."""
        return len(self._unsynced)

    def flush(self) -> None:
        """The WAL writer comes by: what is committed so far stays."""
        self._unsynced.clear()

    def crash(self, commits_lost: int) -> None:
        """Stop at once and start again, without the last commits that were not synced."""
        kept = len(self._unsynced) - commits_lost
        for undo in reversed(self._unsynced[kept:]):
            _roll_back(undo)
        self._unsynced.clear()
        for session in self.sessions:
            session.alive = False
        self.sessions.clear()
        self.locks.clear()
        self.changes += 1

    # what the recorder asks

    def claim(self, session: Session, partition: int) -> ClaimRow | None:
        self._check(session)
        if self.locks.get(partition) not in (None, session):
            return None
        self.locks[partition] = session
        with self._transaction(durable=True):
            row = self.claims[partition]
            self._put(self.claims, partition, replace(row, epoch=row.epoch + 1))
        return self.claims[partition]

    def look_up(self, session: Session, claim: ClaimRow, wanted: Wanted) -> Found:
        self._check(session)
        chronica, acta, outcomes = (self.tables[n] for n in ("chronica", "acta", "outcomes"))
        digest, dedupe, kept = (self.indexes[name] for name in ("digest", "dedupe", "kept"))
        places = range(wanted.first_offset, wanted.end_offset)
        verdicts = self.tables["verdicts"]
        return Found(
            {d: chronica[digest[d]] for d in wanted.heads if d in digest},
            {d: acta[dedupe[d]].seq for d in wanted.dedupes if d in dedupe},
            {d: _kept(outcomes[kept[d]]) for d in wanted.kept if d in kept},
            {n: verdicts[claim.partition, n] for n in places if (claim.partition, n) in verdicts},
        )

    def write(self, session: Session, claim: ClaimRow, expected: int, batch: Batch) -> None:
        self._check(session)
        with self._transaction(durable=False):
            self._move(claim, expected, batch)
            if not self._atomic:
                self._commit(durable=False)
            self._write_rows(claim.partition, batch)

    def pin_verdict(
        self, session: Session, partition: int, offset: int, reason: str, detail: str
    ) -> None:
        self._check(session)
        with self._transaction(durable=True):
            if (partition, offset) not in self.tables["verdicts"]:
                self._put(self.tables["verdicts"], (partition, offset), (reason, detail))

    # within

    def _check(self, session: Session) -> None:
        if not session.alive:
            raise PostgresUnavailableError("the session has ended")

    @contextmanager
    def _transaction(self, *, durable: bool) -> Iterator[None]:
        assert not self._open, "one transaction at a time"
        try:
            yield
        except BaseException:
            _roll_back(self._open)
            self._open = []
            raise
        self._commit(durable=durable)

    def _commit(self, *, durable: bool) -> None:
        self._unsynced.append(self._open)
        self._open = []
        self.changes += 1
        if durable:
            self._unsynced.clear()

    def _put(self, table: Table, key: Any, value: Any) -> None:
        self._open.append((table, key, table.get(key)))
        table[key] = value

    def _insert(self, table: Table, key: Any, value: Any) -> None:
        if key in table:
            raise DataRefusedError("SQLSTATE 23505: duplicate key value")
        self._put(table, key, value)

    def _move(self, claim: ClaimRow, expected: int, batch: Batch) -> None:
        row = self.claims[claim.partition]
        if self._compares and (row.epoch, row.next_offset) != (claim.epoch, expected):
            raise ClaimLostError("the partition was claimed or moved")
        moved = replace(
            row,
            next_offset=batch.next_offset,
            last_offset=batch.last_offset,
            last_timestamp_ms=batch.last_timestamp_ms,
            last_checksum=batch.last_checksum,
        )
        self._put(self.claims, claim.partition, moved)

    def _write_rows(self, partition: int, batch: Batch) -> None:
        tables, indexes = self.tables, self.indexes
        for head in batch.heads:
            _check_text(head.tenant, head.id, head.owner)
            before = tables["chronica"].get(head.number)
            if before is None:
                self._insert(indexes["digest"], head.digest, head.number)
                self._put(tables["chronica"], head.number, head)
            else:
                moved = before._replace(
                    last_seq=head.last_seq, last_activity_at_ms=head.last_activity_at_ms
                )
                self._put(tables["chronica"], head.number, moved)
        for actum in batch.acta:
            _check_text(actum.content, actum.actor)
            key = (actum.chronicum, actum.seq)
            self._insert(tables["acta"], key, actum)
            self._insert(indexes["dedupe"], actum.dedupe, key)
            self._insert(indexes["place"], (partition, actum.offset), key)
        for outcome in batch.outcomes:
            place = (partition, outcome.offset)
            self._insert(tables["outcomes"], place, outcome)
            if outcome.kept is not None:
                self._insert(indexes["kept"], outcome.kept, place)
        for letter in batch.dead_letters:
            self._insert(tables["dead_letters"], (partition, letter.offset), letter)


def _roll_back(undo: list[Undo]) -> None:
    for table, key, before in reversed(undo):
        if before is None:
            del table[key]
        else:
            table[key] = before


def _check_text(*texts: str) -> None:
    if any(REFUSED in text for text in texts):
        raise DataRefusedError("SQLSTATE 22000: this text is refused")


def _kept(row: Any) -> KeptRow:
    return KeptRow(row.outcome, row.reason, row.current_seq, row.chronicum)
