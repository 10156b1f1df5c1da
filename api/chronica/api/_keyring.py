"""Which keys are good: those of the settings, and the stored ones as this process last saw them.

Stored keys are kept as they were while Postgres is away, so that appends go on; what was never seen
lets nobody in. A server is open, and asks for no key, only while there has never been one and
nobody but this machine can reach it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import Final, Self

from chronica.infra.keys import SCOPES, Grant, key_digest
from chronica.infra.settings import Settings
from chronica.projections import ApiKey, FollowedKeys

__all__ = ["KeyRing", "Keys", "Look"]

_AGAIN_S: Final = 1.0


class Look(Enum):
    """Why there is no grant."""

    MISSING = auto()
    """No key came, and one is needed."""
    UNKNOWN = auto()
    """This key is not a good one, as far as is known."""
    NOT_READ = auto()
    """The stored keys were never read, so nothing can be said."""


class KeyRing:
    """All keys that are good, by their digests. Pure.

    Args:
        fixed: the grants of the keys in the settings.
        open_grant: what anybody may do while there has never been a key; None: nothing.
    """

    def __init__(self, fixed: Mapping[bytes, Grant], open_grant: Grant | None) -> None:
        self._fixed = fixed
        self._open_grant = open_grant
        self._stored: dict[bytes, Grant] | None = None
        self._ever_stored = False

    @property
    def read(self) -> bool:
        """Whether the stored keys are known."""
        return self._stored is not None

    def take(self, keys: Sequence[ApiKey]) -> None:
        """Take in all stored keys, revoked ones too."""
        self._stored = {
            key.digest: Grant(key.tenant, frozenset(s for s in SCOPES if s in key.scopes))
            for key in keys
            if key.revoked_at is None
        }
        self._ever_stored = bool(keys)

    def look(self, secret: bytes | None) -> Grant | Look:
        """Return what the bearer of a secret may do, or why nothing."""
        if secret is not None:
            digest = key_digest(secret)
            grant = self._fixed.get(digest) or (self._stored or {}).get(digest)
            if grant is not None:
                return grant
        elif self._fixed:
            return Look.MISSING
        if self._stored is None:
            return Look.NOT_READ
        if not self._fixed and not self._ever_stored and self._open_grant is not None:
            return self._open_grant
        return Look.MISSING if secret is None else Look.UNKNOWN


class Keys:
    """The key ring of one process, kept up with Postgres.

    Args:
        settings: keys, tenant and host, and the address of Postgres.
        clock: monotonic seconds.
    """

    def __init__(self, settings: Settings, *, clock: Callable[[], float] = time.monotonic) -> None:
        assert settings.postgres_dsn is not None, "the caller has resolved the addresses"
        open_grant = Grant(settings.tenant, frozenset(SCOPES)) if settings.is_loopback else None
        self._ring = KeyRing(settings.grants(), open_grant)
        self._followed = FollowedKeys(settings.postgres_dsn.get_secret_value(), self._ring.take)
        self._clock = clock
        self._looked_at = float("-inf")

    async def __aenter__(self) -> Self:
        """Begin to follow the stored keys; Postgres may be away."""
        await self._followed.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop following."""
        await self._followed.close()

    @property
    def read(self) -> bool:
        """Whether the stored keys are known."""
        return self._ring.read

    async def look(self, secret: bytes | None) -> Grant | Look:
        """Return what the bearer of a secret may do, or why nothing.

        An unknown key may have been made just now, and its notification be on its way: then the
        stored ones are read again, at most once a second for everybody together.
        """
        found = self._ring.look(secret)
        if found is Look.MISSING or isinstance(found, Grant):
            return found
        if self._clock() - self._looked_at >= _AGAIN_S:
            self._looked_at = self._clock()
            await self._followed.read_now()
            found = self._ring.look(secret)
        return found
