"""What goes out over HTTP: JSON spliced from stored text, so that whatever came in comes out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from json.encoder import encode_basestring, encode_basestring_ascii

from fastapi import Response

from chronica.acta import dump_json
from chronica.projections import ChronicumView, StoredActum

__all__ = [
    "acta_json",
    "actum_json",
    "chronicum_json",
    "error",
    "event_of",
    "json_response",
    "queued",
]


def json_response(
    body: str, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return an answer of JSON text."""
    return Response(
        body.encode(), status, media_type="application/json", headers=dict(headers or {})
    )


def error(
    status: int,
    detail: object,
    headers: Mapping[str, str] | None = None,
    **fields: object,
) -> Response:
    """Return an error's answer: ``detail`` and what else helps."""
    return json_response(dump_json({"detail": detail, **fields}), status, headers)


def queued(submission_id: str, position: str) -> Response:
    """Return the answer to what is durable and not decided yet."""
    body = {"status": "queued", "id": submission_id, "position": position}
    return json_response(dump_json(body), 202, {"Chronica-Position": position})


def _text(text: str | None) -> str:
    if text is None:
        return "null"
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate: JSON can say it, UTF-8 can't
        return encode_basestring_ascii(text)
    return encode_basestring(text)


def _time(at: datetime) -> str:
    # isoformat takes half of the time of strftime, and each actum of a window has one.
    return f'"{at.astimezone(UTC).isoformat("T", "milliseconds").removesuffix("+00:00")}Z"'


def actum_json(actum: StoredActum) -> str:
    """Return an actum's JSON text."""
    return (
        f'{{"id":{_text(actum.id)},"chronicum_id":{_text(actum.chronicum_id)},'
        f'"seq":{actum.seq},"at":{_time(actum.at)},"kind":"{actum.kind}",'
        f'"actor_kind":"{actum.actor_kind}","actor":{_text(actum.actor)},'
        f'"content":{_text(actum.content)},"call_id":{_text(actum.call_id)},'
        f'"metadata":{actum.metadata or "null"}}}'
    )


_ONE_LINE = str.maketrans("\r\n", "  ")


def event_of(actum: StoredActum) -> bytes:
    """Return an actum as an event.

    A line break in its JSON can only be white space between tokens of ``metadata``: inside a string
    JSON escapes it. As a space it leaves the event on one line, and the JSON as it was.
    """
    data = actum_json(actum).translate(_ONE_LINE)
    return f"id: {actum.seq}\nevent: actum\ndata: {data}\n\n".encode()


def acta_json(acta: Iterable[StoredActum]) -> str:
    """Return a window's JSON text."""
    return f'{{"acta":[{",".join(map(actum_json, acta))}]}}'


def chronicum_json(chronicum: ChronicumView) -> str:
    """Return a chronicum's JSON text."""
    return (
        f'{{"id":{_text(chronicum.id)},"owner_id":{_text(chronicum.owner_id)},'
        f'"created_at":{_time(chronicum.created_at)},'
        f'"last_activity_at":{_time(chronicum.last_activity_at)},"last_seq":{chronicum.last_seq}}}'
    )
