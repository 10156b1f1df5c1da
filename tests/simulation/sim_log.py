"""A model of the acta topic, and of the writers that append to it: every kind of submission.

The pools of names are small on purpose: copies, conflicts and strangers meet all the time.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

from tests.simulation.sim_postgres import REFUSED

from chronica.log import partition_key, partition_of
from chronica.recorder._fold import LogRecord
from chronica.recorder._work import Fetched, Identity

__all__ = ["Log", "Writers"]

POISON: tuple[bytes | None, ...] = (
    b"\xff",
    None,
    b"{}",
    b"null",
    b'{"type":"actum","version":99}',
    b'{"type":"control","version":1}',
)


class Log:
    """One partition: records, and places that only hold the mark of a transaction (None)."""

    def __init__(self) -> None:
        self.slots: list[LogRecord | None] = []

    @property
    def end_offset(self) -> int:
        return len(self.slots)

    def identity(self, offset: int) -> Identity:
        return Identity(self.slots[offset] if offset >= 0 else None, self.end_offset)

    def fetch(self, offset: int, count: int) -> Fetched:
        read = self.slots[offset : offset + count]
        return Fetched([record for record in read if record is not None], offset + len(read))


class Writers:
    """All writers of the topic; what they do is the random numbers' choice."""

    def __init__(self, random: Random, logs: list[Log]) -> None:
        self._random = random
        self._logs = logs
        self._clock_ms = 1_700_000_000_000
        self._ids: list[str] = []
        self._sent: list[tuple[int, bytes | None, bytes | None]] = []

    def append(self) -> None:
        """Append one record, or a transaction's mark."""
        random = self._random
        kind = random.random()
        if kind < 0.04:
            random.choice(self._logs).slots.append(None)
        elif kind < 0.09:
            self._append(random.randrange(len(self._logs)), b"key", random.choice(POISON))
        elif kind < 0.2 and self._sent:
            self._append(*random.choice(self._sent))  # the very bytes again
        else:
            self._append(*self._submission())

    def _append(self, partition: int, key: bytes | None, value: bytes | None) -> None:
        random = self._random
        # The broker's clock stands still, moves, and is sometimes set back.
        self._clock_ms += random.randint(0, 5) if random.random() < 0.96 else -50
        headers = (("trace", b"\x00\xff"), ("empty", None)) if random.random() < 0.1 else ()
        slots = self._logs[partition].slots
        slots.append(LogRecord(len(slots), self._clock_ms, key, value, headers))
        self._sent.append((partition, key, value))

    def _submission(self) -> tuple[int, bytes, bytes]:
        random = self._random
        number = random.randrange(6)
        chronicum = f"c{number}" if random.random() < 0.97 else f"c{REFUSED}"
        fields: dict[str, Any] = {
            "type": "create" if random.random() < 0.1 else "actum",
            "version": 1,
            "id": self._id(),
            "tenant": "t",
            "chronicum": chronicum,
            "owner": random.choices(["ann", "bob", None], [85, 8, 7])[0],
            "key": self._key(),
            "expected_seq": random.choices([None, random.randrange(6)], [70, 30])[0],
            "kind": "message",
            "actor_kind": "agent",
            "actor": "a",
            "payload": {"content": f"{len(self._sent)}" + REFUSED * (random.random() < 0.04)},
        }
        if fields["type"] == "create" and random.random() < 0.9:
            fields["owner"] = "ann"
        value = json.dumps({n: v for n, v in fields.items() if v is not None}).encode()
        key = partition_key("t", chronicum)
        partition = partition_of(key, len(self._logs))
        wrong = random.random()
        if wrong < 0.02:
            key = partition_key("t", "another")
        elif wrong < 0.04:
            partition = (partition + 1) % len(self._logs)
        return partition, key, value

    def _id(self) -> str | None:
        """Nearly always a new one; the ids that come in are not trusted to be unique."""
        kind = self._random.random()
        if kind < 0.05:
            return None
        if kind < 0.15 and self._ids:
            return self._random.choice(self._ids[-8:])
        self._ids.append(f"s{len(self._ids)}")
        return self._ids[-1]

    def _key(self) -> str | None:
        """None, one of few, or an id: whoever got no answer retries with it as the key."""
        kind = self._random.random()
        if kind < 0.5:
            return None
        if kind < 0.8 or not self._ids:
            return f"k{self._random.randrange(8)}"
        return self._random.choice(self._ids[-8:])
