"""What must hold in the simulated world, at every moment and at its end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from tests.simulation.sim_log import Log
from tests.simulation.sim_postgres import Postgres

__all__ = ["Watch", "difference", "rows_of"]


class Watch:
    """A reader who remembers every answer there ever was, and looks after every change.

    All below a partition's position is recorded, once, and nothing above it; an answer that could
    have been read stays what it was, even if a crash takes it back for a while; each chronicum's
    seqs are 1..n. (That one dedupe key has one actum is the model's own unique constraint.)
    """

    def __init__(self, logs: Sequence[Log]) -> None:
        self._logs = logs
        self._answers: dict[tuple[int, int], tuple[Any, ...]] = {}
        self._seen_changes = 0

    def look(self, postgres: Postgres) -> None:
        if postgres.changes == self._seen_changes:
            return
        self._seen_changes = postgres.changes
        for partition in range(len(self._logs)):
            self._look_at_partition(postgres, partition)
        _look_at_chronica(postgres)

    def _look_at_partition(self, postgres: Postgres, partition: int) -> None:
        tables, places = postgres.tables, postgres.indexes["place"]
        acta, outcomes, dead = tables["acta"], tables["outcomes"], tables["dead_letters"]
        position = postgres.claims[partition].next_offset
        for offset, record in enumerate(self._logs[partition].slots):
            place = (partition, offset)
            found = (acta.get(places.get(place)), outcomes.get(place), dead.get(place))
            rows = [row for row in found if row is not None]
            wanted = 0 if record is None or offset >= position else 1
            assert len(rows) == wanted, f"{place}: {len(rows)} rows, position {position}"
            if rows:
                before = self._answers.setdefault(place, rows[0])
                assert rows[0] == before, f"{place}: the answer was {before}, now {rows[0]}"


def _look_at_chronica(postgres: Postgres) -> None:
    seqs: dict[int, list[int]] = defaultdict(list)
    for chronicum, seq in postgres.tables["acta"]:
        seqs[chronicum].append(seq)
    for number, head in postgres.tables["chronica"].items():
        found = sorted(seqs.pop(number, []))
        assert found == list(range(1, head.last_seq + 1)), f"{number}: {found}, {head}"
    assert not seqs, f"acta without a chronicum: {dict(seqs)}"


def rows_of(postgres: Postgres) -> dict[str, list[bytes]]:
    """Return all rows as bytes; an epoch counts the claims, so that one may differ."""
    claims = [
        repr((n, c.next_offset, c.last_offset, c.last_timestamp_ms, c.last_checksum)).encode()
        for n, c in sorted(postgres.claims.items())
    ]
    tables = {
        name: [repr(item).encode() for item in sorted(rows.items())]
        for name, rows in postgres.tables.items()
    }
    return tables | {"claims": claims}


def difference(found: list[bytes], wanted: list[bytes]) -> str:
    """Say in a line how two tables differ."""
    more, less = set(found) - set(wanted), set(wanted) - set(found)
    return f"{sorted(more)[:3]} instead of {sorted(less)[:3]}"
