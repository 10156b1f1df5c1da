"""Acta: what happened in a session of people and agents, and the window of it an agent needs.

A *chronicum* is a session and an *actum* is one thing that happened in it. ``Chronicarius`` records
and reads them for an owner; behind it stands a store: ``MemoryStore`` for tests and development,
the log (Kafka and Postgres) through ``Chronicarius.connect()``, or one of your own, which
``chronica.acta.conformance`` tests.

This package is pure: the standard library only, no I/O of its own.
"""

from __future__ import annotations

from chronica.acta._chronicarius import Chronicarius
from chronica.acta._errors import (
    AppendUnknownError,
    ChronicaError,
    ChronicumExistsError,
    ChronicumNotFoundError,
    DecisionPendingError,
    EmptyOwnerIDError,
    ExpectedSeqUnsupportedError,
    IdempotencyUnsupportedError,
    InternalError,
    InvalidActumError,
    InvalidIdempotencyKeyError,
    InvalidOwnerIDError,
    InvalidWindowError,
    NotAppendedError,
    ReadTimeoutError,
    SequenceConflictError,
    StoreNotInstalledError,
    StoreUnavailableError,
)
from chronica.acta._ids import random_id
from chronica.acta._json import dump_json, load_json, split_array, split_object
from chronica.acta._memory import MemoryStore
from chronica.acta._models import (
    EPOCH,
    TEXT_CODE_POINTS_MAX,
    ActorKind,
    Actum,
    ActumKind,
    Chronicum,
    validate_actum,
)
from chronica.acta._ports import (
    DecidingStore,
    Decision,
    GuardedStore,
    IdempotentStore,
    Store,
    WindowQuery,
)
from chronica.acta._rules import SEQ_MAX, validate_expected_seq, validate_key, validate_owner
from chronica.acta._window import CallLike, normal_query, select, validate_query, whole_calls

__all__ = [
    "EPOCH",
    "SEQ_MAX",
    "TEXT_CODE_POINTS_MAX",
    "ActorKind",
    "Actum",
    "ActumKind",
    "AppendUnknownError",
    "CallLike",
    "ChronicaError",
    "Chronicarius",
    "Chronicum",
    "ChronicumExistsError",
    "ChronicumNotFoundError",
    "DecidingStore",
    "Decision",
    "DecisionPendingError",
    "EmptyOwnerIDError",
    "ExpectedSeqUnsupportedError",
    "GuardedStore",
    "IdempotencyUnsupportedError",
    "IdempotentStore",
    "InternalError",
    "InvalidActumError",
    "InvalidIdempotencyKeyError",
    "InvalidOwnerIDError",
    "InvalidWindowError",
    "MemoryStore",
    "NotAppendedError",
    "ReadTimeoutError",
    "SequenceConflictError",
    "Store",
    "StoreNotInstalledError",
    "StoreUnavailableError",
    "WindowQuery",
    "dump_json",
    "load_json",
    "normal_query",
    "random_id",
    "select",
    "split_array",
    "split_object",
    "validate_actum",
    "validate_expected_seq",
    "validate_key",
    "validate_owner",
    "validate_query",
    "whole_calls",
]
