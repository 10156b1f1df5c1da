"""A record's key, and the partition it belongs to (rule 3.1).

The key is the canonical JSON array ``[tenant, id]``, ASCII-escaped; the partition is that of the
Java client's default partitioner (murmur2 of the key, sign bit cleared, modulo the partitions).
Both are checked again by the recorder: a producer with another partitioner would split a chronicum.
"""

from __future__ import annotations

import json
from functools import lru_cache

from aiokafka.partitioner import murmur2

__all__ = ["partition_key", "partition_of"]

_CACHED_KEYS_MAX = 16_384  # of ids that may have 1,024 code points each


@lru_cache(_CACHED_KEYS_MAX)
def partition_key(tenant: str, chronicum: str) -> bytes:
    """Return the Kafka key of everything recorded for one chronicum of one tenant."""
    return json.dumps([tenant, chronicum], ensure_ascii=True, separators=(",", ":")).encode()


@lru_cache(_CACHED_KEYS_MAX)
def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition of a key in a topic of so many partitions."""
    return (int(murmur2(key)) & 0x7FFFFFFF) % partitions
