"""The ports behind Chronicarius: what a backend has to do, and what it may do besides.

A ``Store`` is plain and holds no policy: no owner check, no validation, no ids (the seed, section
06). ``IdempotentStore`` adds deduplication. ``DecidingStore`` takes the whole decision in one round
trip, in the order of its own log; ``GuardedStore`` reads with the owner guard in one. Chronicarius
prefers both where a store has them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from chronica.acta._models import ActorKind, Actum, ActumKind, Chronicum

__all__ = [
    "DecidingStore",
    "Decision",
    "GuardedStore",
    "IdempotentStore",
    "Store",
    "WindowQuery",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowQuery:
    """Which acta a window holds. Applied in this order.

    Attributes:
        kinds: only these kinds; None or empty means every kind.
        actor_kinds: only these actor kinds; None or empty means every one.
        last_n: then the most recent n; 0 or less means no limit.
        max_chars: then the newest whose contents fit into so many code points together, stopping
            at the first that does not fit; None means no limit.
        whole_calls: then remove every tool response whose request is not in the window and every
            request whose response is not.
    """

    kinds: Collection[ActumKind] | None = None
    actor_kinds: Collection[ActorKind] | None = None
    last_n: int = 0
    max_chars: int | None = None
    whole_calls: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """What a deciding store answers when an actum is recorded.

    Attributes:
        actum: the stored actum: the new one, or the first one of the same key.
        duplicate: True if an earlier submission with this key had recorded it.
        position: the submission's position token, empty where a store has no log.
    """

    actum: Actum
    duplicate: bool
    position: str = ""


@runtime_checkable
class Store(Protocol):
    """Four plain methods; called only through Chronicarius."""

    async def create(self, chronicum: Chronicum) -> Chronicum:
        """Create a chronicum and return it as stored.

        The store may stamp ``created_at`` and ``last_activity_at`` itself.

        Raises:
            ChronicumExistsError: the id is taken, by whomever.
        """
        ...

    async def record(self, actum: Actum) -> Actum:
        """Append an actum that has its id; stamp ``at`` and ``seq``; return it.

        Raises:
            ChronicumNotFoundError: its chronicum does not exist.
        """
        ...

    async def acta(self, chronicum_id: str, query: WindowQuery) -> Sequence[Actum]:
        """Return the window, oldest first.

        Raises:
            ChronicumNotFoundError: the chronicum does not exist.
        """
        ...

    async def get(self, chronicum_id: str) -> Chronicum:
        """Return the chronicum.

        Raises:
            ChronicumNotFoundError: it does not exist.
        """
        ...


@runtime_checkable
class IdempotentStore(Store, Protocol):
    """A store that can deduplicate."""

    async def record_idempotent(self, actum: Actum, key: str) -> Actum:
        """Like ``record``; a key that is known in the chronicum returns the first actum unchanged.

        Raises:
            ChronicumNotFoundError: its chronicum does not exist.
        """
        ...


@runtime_checkable
class DecidingStore(Protocol):
    """A store that decides in one round trip, in its own order."""

    async def submit(
        self, owner: str, actum: Actum, *, key: str | None, expected_seq: int | None
    ) -> Decision:
        """Guard the owner, dedupe, check ``expected_seq``, create if missing, record.

        The actum is valid and has the id it is to be recorded under.

        Raises:
            ChronicumNotFoundError: the chronicum belongs to another owner.
            SequenceConflictError: its last seq is not ``expected_seq`` (0 = no acta yet); a
                retry with a known key is a duplicate, not a conflict.
            NotAppendedError: nothing was recorded.
            AppendUnknownError: it may yet be recorded; retry with ``retry_key``.
            DecisionPendingError: it is kept and will be decided; the wait ran out.
        """
        ...


@runtime_checkable
class GuardedStore(Protocol):
    """A store that guards the owner and reads in one round trip."""

    async def window(self, owner: str, chronicum_id: str, query: WindowQuery) -> Sequence[Actum]:
        """Return the owner's window, oldest first. The query is valid.

        Raises:
            ChronicumNotFoundError: the chronicum does not exist or belongs to another owner.
            StoreUnavailableError: the store cannot be reached.
            ReadTimeoutError: the projection is not as far as the read must be, in time.
        """
        ...

    async def chronicum(self, owner: str, chronicum_id: str) -> Chronicum:
        """Return the owner's chronicum.

        Raises:
            ChronicumNotFoundError: the chronicum does not exist or belongs to another owner.
            StoreUnavailableError: the store cannot be reached.
            ReadTimeoutError: the projection is not as far as the read must be, in time.
        """
        ...
