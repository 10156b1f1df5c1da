"""The memory store keeps the contract whole, and so do Chronicarius's paths for lesser stores."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from chronica.acta import Actum, Chronicum, MemoryStore, Store, WindowQuery
from chronica.acta.conformance import (
    ChronicariusConformance,
    DecidingStoreConformance,
    IdempotentStoreConformance,
    StoreConformance,
)


class PlainFace:
    """Only the four methods of a memory store."""

    def __init__(self) -> None:
        self._store = MemoryStore()

    async def create(self, chronicum: Chronicum) -> Chronicum:
        return await self._store.create(chronicum)

    async def record(self, actum: Actum) -> Actum:
        return await self._store.record(actum)

    async def acta(self, chronicum_id: str, query: WindowQuery) -> Sequence[Actum]:
        return await self._store.acta(chronicum_id, query)

    async def get(self, chronicum_id: str) -> Chronicum:
        return await self._store.get(chronicum_id)


class IdempotentFace(PlainFace):
    """The four methods and deduplication."""

    async def record_idempotent(self, actum: Actum, key: str) -> Actum:
        return await self._store.record_idempotent(actum, key)


class TestMemoryStore(
    StoreConformance,
    IdempotentStoreConformance,
    DecidingStoreConformance,
    ChronicariusConformance,
):
    @asynccontextmanager
    async def open_store(self) -> AsyncIterator[MemoryStore]:
        yield MemoryStore()


class TestPlainStore(StoreConformance, ChronicariusConformance):
    @asynccontextmanager
    async def open_store(self) -> AsyncIterator[Store]:
        yield PlainFace()


class TestIdempotentStore(StoreConformance, IdempotentStoreConformance, ChronicariusConformance):
    @asynccontextmanager
    async def open_store(self) -> AsyncIterator[Store]:
        yield IdempotentFace()
