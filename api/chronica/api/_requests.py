"""What comes in over HTTP: paths, headers and bodies, taken apart without losing a character.

Bodies are split by the source text of their fields, so that ``metadata`` reaches the log as it was
sent (NaN, 1e400, key order); pydantic's and Starlette's own JSON would refuse or change it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from fastapi import HTTPException, Request

from chronica.acta import (
    Actum,
    InvalidActumError,
    split_array,
    split_object,
    validate_actum,
    validate_expected_seq,
    validate_key,
    validate_owner,
)
from chronica.log import Submission

__all__ = [
    "ITEMS_MAX",
    "Body",
    "key_of",
    "only_known",
    "owner_of",
    "parse_body",
    "parse_item",
    "path_text",
    "submission_of",
]

ITEMS_MAX: Final = 10_000
"""So many acta a batch may have."""

_DIGITS_MAX: Final = 20
_FIELDS = ("kind", "actor_kind", "actor", "content", "call_id", "idempotency_key", "expected_seq")


def path_text(segment: str) -> str:
    """Return the text of a percent-encoded path segment; ``%2F`` is part of it.

    Raises:
        HTTPException: 422, it is not UTF-8.
    """
    try:
        return unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        raise HTTPException(422, "The id in the path is not percent-encoded UTF-8.") from None


def _header(request: Request, name: bytes) -> str | None:
    values = [value for key, value in request.scope["headers"] if key == name]
    if not values:
        return None
    shown = name.decode().title()
    if len(values) > 1:
        raise HTTPException(422, f"The header {shown} was sent {len(values)} times: send it once.")
    try:
        return bytes(values[0]).decode()
    except UnicodeDecodeError:
        raise HTTPException(422, f"The header {shown} is not UTF-8.") from None


def owner_of(request: Request) -> str:
    """Return the owner that a request names in the header Chronica-Owner.

    Raises:
        HTTPException: 422, it is missing or not UTF-8.
        EmptyOwnerIDError: it is empty.
        InvalidOwnerIDError: it is too long.
    """
    owner = _header(request, b"chronica-owner")
    if owner is None:
        raise HTTPException(422, "The header Chronica-Owner is missing: name the owner.")
    validate_owner(owner)
    return owner


def only_known(request: Request, *names: str) -> None:
    """Refuse query parameters that the route does not have: a misspelt filter filters nothing.

    Raises:
        HTTPException: 422, it names them.
    """
    unknown = sorted(set(request.query_params) - set(names))
    if unknown:
        known = f"it takes {', '.join(names)}" if names else "it takes none"
        raise HTTPException(422, f"This route has no parameter {', '.join(unknown)}: {known}.")


@dataclass(frozen=True, slots=True)
class Body:
    """The fields of one actum that are decided by value, and the source text of its metadata."""

    fields: dict[str, Any]
    metadata: str | None


def _int(digits: str) -> int:
    """Refuse what no field can be: reading millions of digits would hold up everyone else."""
    if len(digits) > _DIGITS_MAX:
        raise ValueError(f"an integer has {len(digits)} digits")
    return int(digits)


def _split(source: str, what: str) -> dict[str, str]:
    try:
        return split_object(source)
    except ValueError as error:
        raise HTTPException(422, f"{what} is not a JSON object: {error}.") from None


def parse_body(body: bytes) -> Body | list[str]:
    """Return the fields of a body, or the source texts of the acta of a batch.

    Raises:
        HTTPException: 422, it is neither.
    """
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise HTTPException(422, f"The body is not a JSON object: {error}.") from None
    sources = _split(text, "The body")
    if "acta" not in sources:
        return _body_of(sources, "The body")
    if len(sources) > 1:
        extra = ", ".join(sorted(set(sources) - {"acta"}))
        raise HTTPException(
            422, f'A batch is {{"acta": [...]}} and nothing beside it, not {extra}.'
        )
    try:
        items = split_array(sources["acta"])
    except ValueError as error:
        raise HTTPException(422, f"acta is not a JSON array: {error}.") from None
    if len(items) > ITEMS_MAX:
        raise HTTPException(
            422,
            f"The batch has {len(items)} acta, over {ITEMS_MAX}: send it in parts. Nothing was "
            "recorded.",
        )
    return items


def parse_item(source: str) -> Body:
    """Return the fields of one actum of a batch.

    Raises:
        HTTPException: 422, it is not a JSON object.
    """
    return _body_of(_split(source, "The actum"), "The actum")


def _body_of(sources: dict[str, str], what: str) -> Body:
    try:
        fields = {
            name: json.loads(sources[name], parse_int=_int) for name in _FIELDS if name in sources
        }
    except (ValueError, RecursionError) as error:
        raise HTTPException(422, f"{what} is not a JSON object: {error}.") from None
    metadata = sources.get("metadata")
    if metadata is None or metadata == "null":
        return Body(fields, None)
    if not metadata.startswith("{"):
        raise InvalidActumError("metadata", "must be a JSON object")
    return Body(fields, metadata)


def submission_of(
    body: Body, key: str | None, *, tenant: str, chronicum: str, owner: str, submission_id: str
) -> Submission:
    """Return the submission that an actum's fields make.

    Args:
        body: its fields.
        key: the idempotency key that came in a header.
        tenant: whose chronicum.
        chronicum: its id.
        owner: who asks.
        submission_id: the id it gets.

    Raises:
        HTTPException: 422, header and field keys differ.
        InvalidActumError: a field breaks a rule; it names the field.
        InvalidIdempotencyKeyError: the key is empty or too long.
    """
    fields = body.fields
    for name in ("kind", "actor_kind", "actor"):
        if name not in fields:
            raise InvalidActumError(name, "is missing")
    content = fields.get("content")
    actum = Actum(
        chronicum_id=chronicum,
        kind=fields["kind"],
        actor_kind=fields["actor_kind"],
        actor=fields["actor"],
        content="" if content is None else content,
        call_id=fields.get("call_id"),
    )
    validate_actum(actum)
    validate_expected_seq(fields.get("expected_seq"))
    return Submission(
        type="actum",
        id=submission_id,
        tenant=tenant,
        chronicum=chronicum,
        owner=owner,
        key=_one_key(key, fields.get("idempotency_key")),
        expected_seq=fields.get("expected_seq"),
        kind=actum.kind,
        actor_kind=actum.actor_kind,
        actor=actum.actor,
        content=actum.content,
        call_id=actum.call_id,
        metadata=body.metadata,
    )


def key_of(request: Request) -> str | None:
    """Return what the header Idempotency-Key says.

    Raises:
        HTTPException: 422, it came twice or is not UTF-8.
        InvalidIdempotencyKeyError: it is empty or too long.
    """
    key = _header(request, b"idempotency-key")
    validate_key(key)
    return key


def _one_key(header: str | None, field: str | None) -> str | None:
    validate_key(field)
    if header is not None and field is not None and header != field:
        raise HTTPException(
            422,
            "The header Idempotency-Key and the field idempotency_key differ: send one of them. "
            "Nothing was recorded.",
        )
    return field if header is None else header
