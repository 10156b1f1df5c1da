"""Chronicarius: the only door to acta, and the home of every rule that is not a store's.

It checks the owner before anything is read or written, validates, assigns ids and creates a
chronicum on its first actum, so that a plain and correct store is already a right one (the seed,
sections 02 to 06). Where a store decides by itself (``DecidingStore``) or guards its reads
(``GuardedStore``), that one round trip is used instead of several.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from chronica.acta._clock import utc_now
from chronica.acta._entry_point import load_store_factory
from chronica.acta._errors import (
    ChronicumExistsError,
    ChronicumNotFoundError,
    ExpectedSeqUnsupportedError,
    IdempotencyUnsupportedError,
    InvalidActumError,
)
from chronica.acta._ids import random_id
from chronica.acta._json import dump_json, load_json
from chronica.acta._models import EPOCH, ActorKind, Actum, ActumKind, Chronicum, validate_actum
from chronica.acta._ports import DecidingStore, GuardedStore, IdempotentStore, Store
from chronica.acta._rules import validate_expected_seq, validate_key, validate_owner
from chronica.acta._text import joined
from chronica.acta._window import normal_query

__all__ = ["Chronicarius"]


class Chronicarius:
    """Records acta, and gives each agent its context window.

    Use it as ``async with`` to close the store with it, if the store has an ``aclose()``.

    Args:
        store: where the acta are kept.
        new_id: makes the id of each new actum.
        clock: the time of a new chronicum, for stores that do not stamp one themselves; UTC.
    """

    def __init__(
        self,
        store: Store,
        *,
        new_id: Callable[[], str] = random_id,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._store = store
        self._new_id = new_id
        self._clock = clock

    @classmethod
    @asynccontextmanager
    async def connect(
        cls, *, tenant: str = "local", settings: Any = None, **options: Any
    ) -> AsyncIterator[Self]:
        """Open the log store (Kafka and Postgres) for as long as the ``async with`` lasts.

        Args:
            tenant: whose chronica these are.
            settings: the log store's settings; None takes them from ``CHRONICA_*``.
            **options: passed on to the log store.

        Raises:
            StoreNotInstalledError: the log store is not installed.
        """
        factory = load_store_factory()
        async with factory(tenant=tenant, settings=settings, **options) as store:
            yield cls(store)

    async def record_actum(
        self,
        owner: str,
        actum: Actum,
        *,
        idempotency_key: str | None = None,
        expected_seq: int | None = None,
    ) -> Actum:
        """Record an actum and return it as stored; create its chronicum if there is none.

        Args:
            owner: who must own the chronicum, and will if it is created now.
            actum: its ``id``, ``at`` and ``seq`` are ignored: they are assigned here.
            idempotency_key: a retry with the same key in the same chronicum returns the actum that
                was stored first and drops the new payload.
            expected_seq: record only if the chronicum's last seq is this one; 0 = no acta yet.

        Raises:
            EmptyOwnerIDError: the owner is empty.
            InvalidOwnerIDError: the owner is unusable.
            InvalidActumError: a field of the actum breaks a rule, or ``expected_seq`` does.
            InvalidIdempotencyKeyError: the key is empty or unusable.
            IdempotencyUnsupportedError: a key was given and the store cannot deduplicate.
            ExpectedSeqUnsupportedError: ``expected_seq`` was given and the store cannot check it.
            ChronicumNotFoundError: the chronicum belongs to another owner.
            SequenceConflictError: the chronicum's last seq is not ``expected_seq``.
            NotAppendedError: the log cannot be reached: nothing was recorded.
            AppendUnknownError: it may yet be recorded: retry with the error's ``retry_key``.
            DecisionPendingError: it is kept and will be decided; the wait ran out.
        """
        owner = _normal_owner(owner)
        actum = _normal_actum(actum)
        validate_expected_seq(expected_seq)
        validate_key(idempotency_key)
        if idempotency_key is not None:
            idempotency_key = joined(idempotency_key)
        store = self._store
        if isinstance(store, DecidingStore):
            new = replace(actum, id=self._new_id())
            decision = await store.submit(
                owner, new, key=idempotency_key, expected_seq=expected_seq
            )
            return decision.actum
        if idempotency_key is not None and not isinstance(store, IdempotentStore):
            raise IdempotencyUnsupportedError
        if expected_seq is not None:
            raise ExpectedSeqUnsupportedError
        await self._find_or_create(owner, actum.chronicum_id)
        new = replace(actum, id=self._new_id())
        if idempotency_key is not None and isinstance(store, IdempotentStore):
            return await store.record_idempotent(new, idempotency_key)
        return await store.record(new)

    async def get_acta(
        self,
        owner: str,
        chronicum_id: str,
        *,
        last_n: int = 0,
        kinds: Collection[ActumKind | str] | None = None,
        actor_kinds: Collection[ActorKind | str] | None = None,
        max_chars: int | None = None,
        whole_calls: bool = False,
    ) -> list[Actum]:
        """Return a context window, oldest first.

        Args:
            owner: who must own the chronicum.
            chronicum_id: the chronicum.
            last_n: the most recent n of those that pass the filters; 0 or less: no limit.
            kinds: only these kinds; None or empty: every kind.
            actor_kinds: only these actor kinds; None or empty: every one.
            max_chars: the newest whose contents fit into so many code points together.
            whole_calls: without tool requests and responses whose partner is not in the window.

        Raises:
            EmptyOwnerIDError: the owner is empty.
            InvalidOwnerIDError: the owner is unusable.
            InvalidWindowError: an option is out of range, or two of them contradict.
            ChronicumNotFoundError: there is no such chronicum for this owner.
            StoreUnavailableError: the store cannot be reached.
            ReadTimeoutError: the store is not yet as far as this read must see.
        """
        owner, chronicum_id = _normal_owner(owner), joined(chronicum_id)
        query = normal_query(
            last_n=last_n,
            kinds=kinds,
            actor_kinds=actor_kinds,
            max_chars=max_chars,
            whole_calls=whole_calls,
        )
        if isinstance(self._store, GuardedStore):
            return list(await self._store.window(owner, chronicum_id, query))
        await self._guarded(owner, chronicum_id)
        return list(await self._store.acta(chronicum_id, query))

    async def get_chronicum(self, owner: str, chronicum_id: str) -> Chronicum:
        """Return a chronicum.

        Raises:
            EmptyOwnerIDError: the owner is empty.
            InvalidOwnerIDError: the owner is unusable.
            ChronicumNotFoundError: there is no such chronicum for this owner.
            StoreUnavailableError: the store cannot be reached.
            ReadTimeoutError: the store is not yet as far as this read must see.
        """
        owner, chronicum_id = _normal_owner(owner), joined(chronicum_id)
        if isinstance(self._store, GuardedStore):
            return await self._store.chronicum(owner, chronicum_id)
        return await self._guarded(owner, chronicum_id)

    async def aclose(self) -> None:
        """Close the store, if it has an ``aclose()``."""
        close = getattr(self._store, "aclose", None)
        if close is not None:
            await close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def _guarded(self, owner: str, chronicum_id: str) -> Chronicum:
        try:
            chronicum = await self._store.get(chronicum_id)
        except ChronicumNotFoundError:
            chronicum = None
        if chronicum is None or chronicum.owner_id != owner:
            # Raised in one place, so that missing and foreign cannot be told apart.
            raise ChronicumNotFoundError(chronicum_id)
        return chronicum

    async def _find_or_create(self, owner: str, chronicum_id: str) -> None:
        try:
            found = await self._store.get(chronicum_id)
        except ChronicumNotFoundError:
            now = self._clock()
            new = Chronicum(id=chronicum_id, owner_id=owner, created_at=now, last_activity_at=now)
            try:
                await self._store.create(new)
            except ChronicumExistsError:
                pass  # Somebody was faster: whose it is now is for the guard to say.
            else:
                return
        else:
            if found.owner_id == owner:
                return
        await self._guarded(owner, chronicum_id)


def _normal_owner(owner: str) -> str:
    validate_owner(owner)
    return joined(owner)


def _normal_actum(actum: Actum) -> Actum:
    """Return a valid actum as stores are to see it: enums, texts and values as JSON has them."""
    if not isinstance(actum, Actum):
        raise InvalidActumError("actum", f"must be an Actum, not {type(actum).__name__}")
    validate_actum(actum)
    metadata = actum.metadata
    if metadata is not None:
        try:
            metadata = load_json(dump_json(dict(metadata)))
        except (TypeError, ValueError) as error:
            raise InvalidActumError("metadata", f"must be a JSON object ({error})") from error
    return replace(
        actum,
        chronicum_id=joined(actum.chronicum_id),
        actor=joined(actum.actor),
        content=joined(actum.content),
        call_id=None if actum.call_id is None else joined(actum.call_id),
        kind=ActumKind(actum.kind),
        actor_kind=ActorKind(actum.actor_kind),
        metadata=metadata,
        id="",
        at=EPOCH,
        seq=0,
    )
