"""The slow path of decoding: the standard library's parser, which takes what msgspec refuses.

It also words the reasons: a record comes here whenever the fast path would not have it.
"""

from __future__ import annotations

import json
from typing import Any, Never

from chronica.acta import split_object
from chronica.log._record import (
    INT_MAX,
    TEXT_CODE_POINTS_MAX,
    InvalidRecordError,
    Submission,
)

__all__ = ["decode_by_stdlib"]


def decode_by_stdlib(text: str) -> Submission:
    """Return the submission of a record's text, by the rules of record version 1.

    Raises:
        InvalidRecordError: a rule is broken; the reason and the sentence say which.
    """
    record = _parse_object(text, "The value")

    def field(name: str) -> _Field:
        return _Field(name, record.get(name, "null"))

    version = field("version").value
    if version != 1 or isinstance(version, bool) or not isinstance(version, int):
        raise InvalidRecordError(
            "unknown_version", f"version is {field('version').raw:.40}, not 1."
        )
    kind = field("type").one_of("unknown_type", "actum", "create")
    if field("enc").value is not None:
        raise InvalidRecordError("encrypted", "enc is reserved: version 1 has no encryption.")
    common: dict[str, Any] = {
        "type": kind,
        "id": field("id").text_or_none() or "",
        "tenant": field("tenant").text(),
        "chronicum": field("chronicum").text(),
        "owner": field("owner").text() if kind == "create" else field("owner").text_or_none(),
    }
    if kind == "create":
        return Submission(**common)
    payload = field("payload").object()

    def inner(name: str) -> _Field:
        return _Field(f"payload.{name}", payload.get(name, "null"))

    actum_kind = field("kind").one_of(
        "unknown_kind", "message", "thought", "tool_request", "tool_response"
    )
    content = inner("content").string()
    if not content and actum_kind in ("message", "thought"):
        raise InvalidRecordError("invalid_field", f"payload.content is empty in a {actum_kind}.")
    metadata = inner("metadata")
    if metadata.value is not None:
        metadata.object()
    return Submission(
        **common,
        key=field("key").text_or_none(),
        expected_seq=field("expected_seq").count_or_none(),
        kind=actum_kind,
        actor_kind=field("actor_kind").one_of("unknown_kind", "human", "agent", "system"),
        actor=field("actor").text(),
        content=content,
        call_id=inner("call_id").text_or_none(),
        metadata=None if metadata.value is None else metadata.raw,
    )


class _Field:
    """One field of a record on the slow path: its name, its source text, its value."""

    def __init__(self, name: str, raw: str) -> None:
        self.name = name
        self.raw = raw
        self.value: object = json.loads(raw, parse_int=_int)

    def _refuse(self, rule: str) -> Never:
        raise InvalidRecordError("invalid_field", f"{self.name} {rule}.")

    def string(self) -> str:
        if not isinstance(self.value, str):
            self._refuse("is not a string")
        return self.value

    def text(self) -> str:
        text = self.string()
        if not 1 <= len(text) <= TEXT_CODE_POINTS_MAX:
            self._refuse(f"has {len(text)} code points, not 1 to {TEXT_CODE_POINTS_MAX}")
        return text

    def text_or_none(self) -> str | None:
        return None if self.value is None else self.text()

    def one_of(self, reason: str, *words: str) -> Any:
        if self.value not in words:
            raise InvalidRecordError(reason, f"{self.name} is {self.raw:.40}, not {words}.")
        return self.value

    def count_or_none(self) -> int | None:
        if self.value is None:
            return None
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            self._refuse("is not an integer")
        if not 0 <= self.value <= INT_MAX:
            self._refuse("is not from 0 to 2^63-1")
        return self.value

    def object(self) -> dict[str, str]:
        if not isinstance(self.value, dict):
            self._refuse("is not an object")
        return _parse_object(self.raw, self.name)


def _int(digits: str) -> int | float:
    # Python refuses very long integers; none of them is in range where the rules ask for one.
    return int(digits) if len(digits) <= 4000 else float("inf")


def _parse_object(text: str, what: str) -> dict[str, str]:
    try:
        return split_object(text)
    except ValueError as error:
        raise InvalidRecordError("not_json", f"{what} is not a JSON object: {error}.") from None
