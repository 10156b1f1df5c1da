"""Digests: fixed-size names of things that may be longer than an index entry.

Each is the first 128 bits of a sha256. What is hashed begins with the record's key, which is a JSON
array and so ends where it says; two different things never hash the same bytes.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from json.encoder import encode_basestring_ascii
from uuid import UUID

from chronica.log import partition_key

__all__ = ["chronicum_digest", "key_digest", "submission_digest"]


def _digest(data: bytes) -> UUID:
    return UUID(bytes=sha256(data).digest()[:16])


@lru_cache(16_384)
def chronicum_digest(tenant: str, chronicum: str) -> UUID:
    """Return the digest of a chronicum of a tenant."""
    return _digest(b"c" + partition_key(tenant, chronicum))


def key_digest(tenant: str, chronicum: str, key: str) -> UUID:
    """Return the digest of a caller's idempotency key within a chronicum."""
    return _digest(b"k" + partition_key(tenant, chronicum) + key.encode("utf-8", "surrogatepass"))


def submission_digest(tenant: str, chronicum: str, owner: str | None, submission_id: str) -> UUID:
    """Return the digest of a submission: it is decided once per chronicum and owner."""
    who = "null" if owner is None else encode_basestring_ascii(owner)
    what = encode_basestring_ascii(submission_id)
    return _digest(b"i" + partition_key(tenant, chronicum) + f"[{who},{what}]".encode())
