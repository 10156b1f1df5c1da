"""Bytes of the log to a Submission, or the reason why they are none (rules 3.3, 3.6, 3.9).

msgspec decodes nearly every record. What it refuses (NaN, lone surrogates) is judged again by the
standard library before anything is called undecodable, by the same rules; a property test holds the
two to each other. Pure: the same bytes at the same position give the same answer for ever.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated, Literal

import msgspec

from chronica.log._decode_stdlib import decode_by_stdlib
from chronica.log._keys import partition_key, partition_of
from chronica.log._record import (
    INT_MAX,
    NESTING_MAX,
    TEXT_CODE_POINTS_MAX,
    VALUE_BYTES_MAX,
    InvalidRecordError,
    Submission,
)

__all__ = ["check_nesting", "decode_submission"]

_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=TEXT_CODE_POINTS_MAX)]


class _Payload(msgspec.Struct, gc=False):
    content: str
    call_id: _Text | None = None
    metadata: msgspec.Raw = msgspec.Raw()


class _RecordV1(msgspec.Struct, gc=False):
    type: Literal["actum", "create"]
    version: Literal[1]
    tenant: _Text
    chronicum: _Text
    id: _Text | None = None
    owner: _Text | None = None
    key: _Text | None = None
    expected_seq: Annotated[int, msgspec.Meta(ge=0, le=INT_MAX)] | None = None
    enc: None = None
    kind: Literal["message", "thought", "tool_request", "tool_response"] | None = None
    actor_kind: Literal["human", "agent", "system"] | None = None
    actor: _Text | None = None
    payload: _Payload | None = None


_decoder = msgspec.json.Decoder(_RecordV1)


def decode_submission(
    key: bytes | None,
    value: bytes | None,
    *,
    topic: str,
    partition: int,
    offset: int,
    partitions: int,
) -> Submission:
    """Return the submission that a record of the acta topic holds.

    Args:
        key: the record's key.
        value: the record's value.
        topic: short name of the topic (``acta``).
        partition: where the record stands.
        offset: where the record stands.
        partitions: how many partitions the topic has, as pinned at its first start.

    Raises:
        InvalidRecordError: the value or the key breaks a rule of the record's version.
    """
    if value is None:
        raise InvalidRecordError("null_value", "The record has no value.")
    if len(value) > VALUE_BYTES_MAX:
        raise InvalidRecordError(
            "value_too_large", f"The value has {len(value)} bytes, over {VALUE_BYTES_MAX}."
        )
    try:
        text = value.decode()
    except UnicodeDecodeError as error:
        raise InvalidRecordError("not_utf8", f"The value is not UTF-8: {error}.") from None
    check_nesting(value)
    submission = _fast(value) or decode_by_stdlib(text)
    if not submission.id:
        submission = replace(submission, id=f"{topic}-{partition}-{offset}")
    _check_place(submission, key, partition, partitions)
    return submission


def _check_place(
    submission: Submission, key: bytes | None, partition: int, partitions: int
) -> None:
    wanted = partition_key(submission.tenant, submission.chronicum)
    if key != wanted:
        raise InvalidRecordError(
            "wrong_key", f"The key is not that of the body, which is {wanted.decode()}."
        )
    home = partition_of(wanted, partitions)
    if partition != home:
        raise InvalidRecordError(
            "wrong_partition",
            f"The record stands in partition {partition}, its key belongs into {home}: its "
            "producer does not partition by murmur2 as the Java client does.",
        )


# A string, which need not end, or a bracket. Possessive, and a string always matches: linear on any
# bytes, for a poison record must not hold a partition up.
_BRACKETS = re.compile(rb'"[^"\\]*+(?:\\.?[^"\\]*+)*+(?:"|\Z)|([\[{])|([\]}])', re.DOTALL)


def check_nesting(value: bytes) -> None:
    """Refuse deep nesting by a rule of ours: a parser's own limit moves with its caller's stack.

    Args:
        value: a record's value, in UTF-8.

    Raises:
        InvalidRecordError: arrays and objects nest deeper than NESTING_MAX.
    """
    if value.count(b"[") + value.count(b"{") <= NESTING_MAX:
        return
    depth = 0
    for match in _BRACKETS.finditer(value):
        if match[1]:
            depth += 1
            if depth > NESTING_MAX:
                raise InvalidRecordError("too_deep", f"The value nests deeper than {NESTING_MAX}.")
        elif match[2]:
            depth -= 1


def _fast(value: bytes) -> Submission | None:
    try:
        record = _decoder.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return None
    if record.type == "create":
        if record.owner is None:
            return None
        return Submission(
            type="create",
            id=record.id or "",
            tenant=record.tenant,
            chronicum=record.chronicum,
            owner=record.owner,
        )
    return _fast_actum(record)


def _fast_actum(record: _RecordV1) -> Submission | None:
    payload = record.payload
    if payload is None or not record.kind or not record.actor_kind or not record.actor:
        return None
    if not payload.content and record.kind in ("message", "thought"):
        return None
    metadata = str(payload.metadata, "utf-8")
    if metadata and metadata[0] != "{" and metadata != "null":
        return None
    return Submission(
        type="actum",
        id=record.id or "",
        tenant=record.tenant,
        chronicum=record.chronicum,
        owner=record.owner,
        key=record.key,
        expected_seq=record.expected_seq,
        kind=record.kind,
        actor_kind=record.actor_kind,
        actor=record.actor,
        content=payload.content,
        call_id=payload.call_id,
        metadata=None if metadata in ("", "null") else metadata,
    )
