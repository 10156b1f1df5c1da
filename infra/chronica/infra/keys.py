"""API keys, as they are written in settings and as they are kept: by digest, never by secret."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Literal, get_args

__all__ = [
    "EVERY_TENANT",
    "PREFIX_CHARS",
    "SCOPES",
    "Grant",
    "Scope",
    "check_scopes",
    "key_digest",
    "new_secret",
    "parse_keys",
]

Scope = Literal["ingest", "read", "admin"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
EVERY_TENANT: Final = "*"
"""The tenant of an operator, who manages the keys of every tenant and reads no data."""
PREFIX_CHARS: Final = 12
"""So much of a secret is kept, to tell keys apart by."""

_SECRET_PREFIX = "chk_"  # noqa: S105  (what secrets begin with, so that a leak can be found)
_ENTRY = re.compile(r"([^:,\s]+):([^:,]+):([^:,\s]+)")


@dataclass(frozen=True, slots=True)
class Grant:
    """What a key lets its bearer do.

    Attributes:
        tenant: in whose name, ``*`` for an operator.
        scopes: ``ingest``, ``read``, ``admin``.
    """

    tenant: str
    scopes: frozenset[Scope]


def new_secret() -> str:
    """Return a new key: 256 random bits, safe in headers, URLs and ``CHRONICA_API_KEYS``."""
    return _SECRET_PREFIX + secrets.token_urlsafe(32)


def key_digest(secret: bytes) -> bytes:
    """Return what a key is found by: its sha256. A key is random, so this needs no salt."""
    return sha256(secret).digest()


def check_scopes(tenant: str, scopes: Iterable[str]) -> frozenset[Scope]:
    """Return scopes that a key of this tenant may have.

    Raises:
        ValueError: one is unknown, there is none, or an operator would read or write data.
    """
    wanted = frozenset(scopes)
    unknown = sorted(wanted - set(SCOPES))
    if unknown or not wanted:
        what = f"{unknown[0]!r} is no scope" if unknown else "it has no scope"
        raise ValueError(f"{what}: a key has one or more of {', '.join(SCOPES)}")
    if tenant == EVERY_TENANT and wanted != {"admin"}:
        raise ValueError(
            "an operator (tenant *) manages keys and reads no data: its scope is admin"
        )
    return frozenset(scope for scope in SCOPES if scope in wanted)


def parse_keys(text: str) -> dict[bytes, Grant]:
    """Return the grants of ``key:tenant:scope+scope,…`` by the keys' digests.

    Raises:
        ValueError: an entry is not of that form; it is named by its number, never by its text.
    """
    grants: dict[bytes, Grant] = {}
    for number, entry in enumerate(text.split(","), 1):
        match = _ENTRY.fullmatch(entry.strip())
        if match is None:
            raise ValueError(f"entry {number} is not key:tenant:scope+scope")
        secret, tenant, scopes = match.groups()
        try:
            grant = Grant(tenant, check_scopes(tenant, scopes.split("+")))
        except ValueError as error:
            raise ValueError(f"entry {number}: {error}") from None
        digest = key_digest(secret.encode())
        if digest in grants:
            raise ValueError(f"entry {number} has the key of an entry before it")
        grants[digest] = grant
    return grants
