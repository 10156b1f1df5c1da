"""The models, their rules, the exports, and the errors' sentences."""

from __future__ import annotations

import dataclasses
import inspect
import subprocess
import sys
from collections import Counter

import pytest

import chronica.acta
import chronica.acta.conformance
from chronica.acta import (
    EPOCH,
    ActorKind,
    Actum,
    ActumKind,
    ChronicaError,
    EmptyOwnerIDError,
    InvalidActumError,
    InvalidIdempotencyKeyError,
    InvalidOwnerIDError,
    conformance,
    validate_actum,
    validate_expected_seq,
    validate_key,
    validate_owner,
)

MESSAGE = Actum(
    chronicum_id="c",
    kind=ActumKind.MESSAGE,
    actor_kind=ActorKind.HUMAN,
    actor="ardian",
    content="hello",
)


def test_the_public_names_are_these() -> None:
    assert chronica.acta.__all__ == [
        *("EPOCH", "SEQ_MAX", "TEXT_CODE_POINTS_MAX", "ActorKind", "Actum", "ActumKind"),
        *("AppendUnknownError", "CallLike", "ChronicaError", "Chronicarius", "Chronicum"),
        *("ChronicumExistsError", "ChronicumNotFoundError", "DecidingStore", "Decision"),
        *("DecisionPendingError", "EmptyOwnerIDError", "ExpectedSeqUnsupportedError"),
        *("GuardedStore", "IdempotencyUnsupportedError", "IdempotentStore", "InternalError"),
        *("InvalidActumError", "InvalidIdempotencyKeyError", "InvalidOwnerIDError"),
        *("InvalidWindowError", "MemoryStore", "NotAppendedError", "ReadTimeoutError"),
        *("SequenceConflictError", "Store", "StoreNotInstalledError", "StoreUnavailableError"),
        *("WindowQuery", "dump_json", "load_json", "normal_query", "random_id", "select"),
        "split_array",
        *("split_object", "validate_actum", "validate_expected_seq", "validate_key"),
        *("validate_owner", "validate_query", "whole_calls"),
    ]
    assert conformance.__all__ == [
        *("HOSTILE_METADATA", "HOSTILE_TEXTS", "LOOKALIKES", "ChronicariusConformance"),
        *("DecidingStoreConformance", "IdempotentStoreConformance", "StoreCase"),
        *("StoreConformance", "raises", "same_json"),
    ]


@pytest.mark.parametrize("module", [chronica.acta, conformance])
def test_every_public_name_is_there_and_every_public_thing_documented(module: object) -> None:
    for name in module.__all__:  # type: ignore[attr-defined]
        thing = getattr(module, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert inspect.getdoc(thing), f"{name} has no docstring"


def test_every_error_is_public_and_a_chronica_error() -> None:
    errors = {
        name
        for name, thing in vars(sys.modules["chronica.acta._errors"]).items()
        if inspect.isclass(thing) and issubclass(thing, ChronicaError)
    }
    assert len(errors) > 15
    assert errors <= set(chronica.acta.__all__)


def test_importing_it_imports_no_driver_and_no_pytest() -> None:
    heavy = {"aiokafka", "psycopg", "msgspec", "fastapi", "pydantic", "asyncpg", "pytest"}
    code = f"import sys, chronica.acta.conformance; print(*({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_no_case_hides_one_of_another_suite() -> None:
    suites = (
        "_store",
        "_idempotent",
        "_keys",
        "_deciding",
        "_chronicarius",
        "_windows",
        "_fidelity",
    )
    names: Counter[str] = Counter()
    for suite in suites:
        module = sys.modules[f"chronica.acta.conformance.{suite}"]
        for thing in vars(module).values():
            if inspect.isclass(thing) and thing.__module__ == module.__name__:
                names.update(name for name in vars(thing) if name.startswith("test_"))
    assert len(names) > 60
    assert [name for name, times in names.items() if times > 1] == []


def test_an_actum_and_a_chronicum_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        MESSAGE.content = "changed"  # type: ignore[misc]
    assert (MESSAGE.id, MESSAGE.at, MESSAGE.seq) == ("", EPOCH, 0)
    assert hash(dataclasses.replace(MESSAGE, metadata={"a": []})) == hash(MESSAGE)


def test_a_valid_actum_passes() -> None:
    validate_actum(MESSAGE)
    validate_actum(dataclasses.replace(MESSAGE, actor="\x00" * 1024, call_id="\ud800", metadata={}))
    validate_actum(dataclasses.replace(MESSAGE, kind=ActumKind.TOOL_REQUEST, content=""))


def test_an_invalid_actum_names_its_first_field_and_its_rule() -> None:
    with pytest.raises(
        InvalidActumError, match=r"content must not be empty in a thought"
    ) as caught:
        validate_actum(dataclasses.replace(MESSAGE, kind=ActumKind.THOUGHT, content=""))
    assert (caught.value.field, caught.value.rule) == ("content", "must not be empty in a thought")


def test_owner_key_and_expected_seq_have_bounds() -> None:
    validate_owner("o" * 1024)
    validate_key("k" * 1024)
    validate_key(None)
    validate_expected_seq(None)
    validate_expected_seq(0)
    validate_expected_seq(2**63 - 1)
    with pytest.raises(EmptyOwnerIDError, match="must not be empty"):
        validate_owner("")
    with pytest.raises(InvalidOwnerIDError, match="1025 code points"):
        validate_owner("o" * 1025)
    with pytest.raises(InvalidIdempotencyKeyError, match="is empty"):
        validate_key("")
    with pytest.raises(InvalidIdempotencyKeyError, match="1025 code points"):
        validate_key("k" * 1025)
    for seq in (-1, 2**63, True, "0"):
        with pytest.raises(InvalidActumError, match="expected_seq"):
            validate_expected_seq(seq)  # type: ignore[arg-type]
