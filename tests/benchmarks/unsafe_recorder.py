"""A recorder without its safety, to see what that costs; the benchmarks alone may run it.

``python -m tests.benchmarks.unsafe_recorder PART…``: without ``offset`` (the row that moves with
each batch and fences) or without ``dedupe`` (digests, look-ups, the memory of keys; the caller has
dropped the index), or without both. What is taken away stands here and nowhere in the product, so
each name is checked: a benchmark that patched nothing would show a cost of nothing.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any
from uuid import UUID

from psycopg import AsyncCursor

from chronica.infra.cli import main
from chronica.projections import CHANNEL, Batch, ClaimRow, Found, Wanted, _batches, look_up
from chronica.recorder import _fold, _shell, _state

_NO_DIGEST = UUID(int=0)


def _patch(owner: Any, name: str, replacement: Any) -> None:
    if not hasattr(owner, name):
        raise SystemExit(f"{owner} has no {name} any more: mend tests/benchmarks.")
    setattr(owner, name, replacement)


async def _only_notify(
    cursor: AsyncCursor[Any], claim: ClaimRow, topic: str, _expected_offset: int, batch: Batch
) -> None:
    told = f"{claim.generation} {topic} {claim.partition} {batch.next_offset}"
    await cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, told])


def _without_offset() -> None:
    _patch(_batches, "_move", _only_notify)


def _without_dedupe() -> None:
    async def heads_only(conn: Any, claim: ClaimRow, topic: str, wanted: Wanted) -> Found:
        return await look_up(conn, claim, topic, replace(wanted, dedupes=(), kept=()))

    _patch(_shell, "look_up", heads_only)
    _patch(_fold, "key_digest", lambda *_: _NO_DIGEST)
    _patch(_fold, "submission_digest", lambda *_: _NO_DIGEST)
    for name in ("first", "kept"):
        _patch(_state.PartitionState, name, lambda *_: None)


_WITHOUT = {"offset": _without_offset, "dedupe": _without_dedupe}

if __name__ == "__main__":
    for part in sys.argv[1:]:
        _WITHOUT[part]()
    main(["recorder"])
