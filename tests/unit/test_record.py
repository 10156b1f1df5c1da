"""Record version 1: what the log holds stays readable for ever, whichever parser reads it."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.harness.submissions import actum

from chronica.log import (
    VALUE_BYTES_MAX,
    InvalidRecordError,
    Submission,
    decode_submission,
    encode_submission,
    partition_key,
    partition_of,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "record_v1.jsonl"


def decode(
    value: bytes | None, key: bytes | None = None, *, partition: int = 0, partitions: int = 1
) -> Submission:
    return decode_submission(
        partition_key("t", "dinner") if key is None else key,
        value,
        topic="acta",
        partition=partition,
        offset=7,
        partitions=partitions,
    )


def reason_of(decoding: Callable[[], Submission]) -> Submission | str:
    """Return what was decoded, or the reason why nothing was."""
    try:
        return decoding()
    except InvalidRecordError as error:
        return error.reason if error.detail else "no sentence for people"


# what is written once


def golden() -> list[dict[str, Any]]:
    return [json.loads(line) for line in GOLDEN.read_text().splitlines()]


def golden_bytes(written: dict[str, str] | None) -> bytes | None:
    if written is None:
        return None
    return base64.b64decode(written["base64"]) if "base64" in written else written["text"].encode()


@pytest.mark.parametrize("line", golden(), ids=lambda line: line["name"])
def test_a_record_of_version_1_stays_what_it_is_for_ever(line: dict[str, Any]) -> None:
    found = reason_of(
        lambda: decode_submission(
            golden_bytes(line["key"]),
            golden_bytes(line["value"]),
            topic="acta",
            partition=line.get("partition", 0),
            offset=line.get("offset", 0),
            partitions=line.get("partitions", 1),
        )
    )
    if "refused" in line:
        assert found == line["refused"]
    else:
        assert isinstance(found, Submission), found
        assert asdict(found) == line["submission"]


def test_the_golden_file_has_every_field_and_every_reason() -> None:
    lines = golden()
    accepted = [line["submission"] for line in lines if "submission" in line]
    for name, default in asdict(actum(id="")).items():
        values = [submission[name] for submission in accepted]
        assert any(value != default for value in values), f"{name} is the same everywhere"
    # All but value_too_large: 16 MiB have a test of their own.
    assert {line["refused"] for line in lines if "refused" in line} == {
        "encrypted",
        "invalid_field",
        "not_json",
        "not_utf8",
        "null_value",
        "too_deep",
        "unknown_kind",
        "unknown_type",
        "unknown_version",
        "wrong_key",
        "wrong_partition",
    }


# in equals out

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
ANY_TEXT = st.text(st.characters(exclude_categories=()))


def without_pairs(text: str) -> str:
    """JSON has one spelling for a character and for its two surrogates side by side: the
    character is what comes out, so two lone surrogates that make a pair are not two any more.
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


TEXTS = ANY_TEXT.map(without_pairs)
NAMES = TEXTS.filter(bool).map(lambda text: text[:1024])
METADATA = st.dictionaries(TEXTS, VALUES, max_size=3).map(json.dumps) | st.dictionaries(
    st.text(), VALUES, max_size=3
).map(lambda value: json.dumps(value, ensure_ascii=False, indent=1))

ACTA = st.builds(
    Submission,
    type=st.just("actum"),
    id=NAMES,
    tenant=NAMES,
    chronicum=NAMES,
    owner=st.none() | NAMES,
    key=st.none() | NAMES,
    expected_seq=st.none() | st.integers(0, 2**63 - 1),
    kind=st.sampled_from(["tool_request", "tool_response"]),
    actor_kind=st.sampled_from(["human", "agent", "system"]),
    actor=NAMES,
    content=TEXTS,
    call_id=st.none() | NAMES,
    metadata=st.none() | METADATA,
)
CREATES = st.builds(
    Submission, type=st.just("create"), id=NAMES, tenant=NAMES, chronicum=NAMES, owner=NAMES
)


@given(ACTA | CREATES, st.integers(1, 64))
def test_what_is_encoded_is_decoded_the_same(submission: Submission, partitions: int) -> None:
    key = partition_key(submission.tenant, submission.chronicum)
    home = partition_of(key, partitions)
    value = encode_submission(submission)
    assert decode(value, key, partition=home, partitions=partitions) == submission


def test_two_surrogates_side_by_side_are_the_character_they_make() -> None:
    assert decode(encode_submission(actum(content="\ud83d\ude00"))).content == "\U0001f600"


@pytest.mark.parametrize(
    "metadata", ['{"a":NaN}', '{"a":"\\ud800"}', '{"a":1e400}', '{"a":%s}' % ("1" * 5000)]
)
def test_what_only_the_standard_library_takes_is_no_less_good(metadata: str) -> None:
    assert decode(encode_submission(actum(metadata=metadata))) == actum(metadata=metadata)


@pytest.mark.parametrize(("depth", "good"), [(253, True), (254, False), (100_000, False)])
def test_the_nesting_that_is_too_deep_is_a_rule_of_ours(depth: int, *, good: bool) -> None:
    """The record, its payload and the metadata are three objects around it."""
    metadata = f'{{"a":{"[" * depth}{"]" * depth}}}'
    found = reason_of(lambda: decode(encode_submission(actum(metadata=metadata))))
    assert found == (actum(metadata=metadata) if good else "too_deep")


# the record's place


def test_a_submission_without_id_has_one_by_its_position() -> None:
    value = encode_submission(actum()).replace(b'"id":"s1",', b"")
    found = decode_submission(
        partition_key("t", "dinner"), value, topic="acta", partition=0, offset=42, partitions=1
    )
    assert found == actum(id="acta-0-42")


@pytest.mark.parametrize("key", [b"", b"dinner", b'["t", "dinner"]', b'["u","dinner"]', b"\xff"])
def test_a_key_that_is_not_the_bodys_is_refused(key: bytes) -> None:
    assert reason_of(lambda: decode(encode_submission(actum()), key)) == "wrong_key"


@pytest.mark.parametrize("partitions", [2, 8, 1024])
def test_a_partition_that_is_not_the_keys_is_refused(partitions: int) -> None:
    home = partition_of(partition_key("t", "dinner"), partitions)
    for partition in range(min(partitions, 8)):
        found = reason_of(
            lambda partition=partition: decode(  # type: ignore[misc]
                encode_submission(actum()), partition=partition, partitions=partitions
            )
        )
        assert found == (actum() if partition == home else "wrong_partition")


def test_the_largest_value_is_read_and_one_byte_more_is_refused() -> None:
    rest = len(encode_submission(actum(content="")))
    largest = actum(content="x" * (VALUE_BYTES_MAX - rest))
    value = encode_submission(largest)
    assert len(value) == VALUE_BYTES_MAX
    assert decode(value) == largest
    assert reason_of(lambda: decode(value + b" ")) == "value_too_large"
