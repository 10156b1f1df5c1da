"""Who calls: the tenant a request acts for, and what it may do there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fastapi import HTTPException, Request

from chronica.api._keyring import Keys, Look
from chronica.infra.keys import Grant, Scope

__all__ = ["Caller", "caller_of"]

_CHALLENGE: Final = {"WWW-Authenticate": "Bearer"}


@dataclass(frozen=True, slots=True)
class Caller:
    """Who a request is from.

    Attributes:
        tenant: whose chronica it may reach.
        scopes: what it may do there.
    """

    tenant: str
    scopes: frozenset[Scope]


async def caller_of(request: Request, scope: Scope) -> Caller:
    """Return who calls, if they may do this; cheap enough to be asked again during a stream.

    Args:
        request: its header Authorization has the key.
        scope: what they want to do.

    Raises:
        HTTPException: 401, no key or none that is good; 403, the key has not this scope; 503, the
            keys were never read, because Postgres does not answer.
    """
    keys: Keys = request.app.state.keys
    found = await keys.look(_secret(request))
    if found is Look.NOT_READ:
        raise HTTPException(
            503,
            "The API keys can't be read yet, so nobody is let in: try again.",
            {"Retry-After": "1"},
        )
    if not isinstance(found, Grant):
        detail = "missing bearer token" if found is Look.MISSING else "invalid api key"
        raise HTTPException(401, detail, _CHALLENGE)
    if scope not in found.scopes:
        raise HTTPException(403, f"requires scopes: {scope}")
    return Caller(found.tenant, found.scopes)


def _secret(request: Request) -> bytes | None:
    """Return the key that a request bears, None if it bears none."""
    values = [value for name, value in request.scope["headers"] if name == b"authorization"]
    if len(values) != 1:
        return None
    scheme, _, secret = values[0].strip().partition(b" ")
    return (secret.strip() or None) if scheme.lower() == b"bearer" else None
