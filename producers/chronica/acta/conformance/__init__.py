"""The contract of a store as tests, for anyone's store.

Each suite is a plain class of ``async def test_...`` methods and needs one override; run them with
pytest-asyncio in auto mode. A store's whole test file, several suites in one class if you like::

    class TestMyStore(StoreConformance, IdempotentStoreConformance, ChronicariusConformance):
        def open_store(self):
            return my_store()  # an async context manager that yields the store

The store may be shared between tests and need not be empty: every case uses ids of its own. For
pytest's detailed assertion messages, call
``pytest.register_assert_rewrite("chronica.acta.conformance")`` before the import.
"""

from __future__ import annotations

from chronica.acta.conformance._case import StoreCase, raises
from chronica.acta.conformance._chronicarius import ChronicariusConformance
from chronica.acta.conformance._deciding import DecidingStoreConformance
from chronica.acta.conformance._hostile import (
    HOSTILE_METADATA,
    HOSTILE_TEXTS,
    LOOKALIKES,
    same_json,
)
from chronica.acta.conformance._idempotent import IdempotentStoreConformance
from chronica.acta.conformance._store import StoreConformance

__all__ = [
    "HOSTILE_METADATA",
    "HOSTILE_TEXTS",
    "LOOKALIKES",
    "ChronicariusConformance",
    "DecidingStoreConformance",
    "IdempotentStoreConformance",
    "StoreCase",
    "StoreConformance",
    "raises",
    "same_json",
]
