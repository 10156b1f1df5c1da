"""Who calls: the tenant a request acts for, and what it may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fastapi import Request

from chronica.api._backend import backend_of

__all__ = ["Caller", "Scope", "caller_of"]

Scope = Literal["ingest", "read", "admin"]


@dataclass(frozen=True, slots=True)
class Caller:
    """Who a request is from.

    Attributes:
        tenant: whose chronica it may reach.
        scopes: what it may do there.
    """

    tenant: str
    scopes: frozenset[Scope]


async def caller_of(request: Request, scope: Scope) -> Caller:  # noqa: ARG001
    """Return who calls; without keys, the tenant of the settings, who may do everything."""
    tenant = backend_of(request).settings.tenant
    return Caller(tenant, frozenset(("ingest", "read", "admin")))
