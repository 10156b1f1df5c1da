"""Actum and Chronicum: what is recorded, and the session it is recorded in.

Both are plain frozen dataclasses, not pydantic models: nothing here may normalise, coerce or refuse
a text (a lone surrogate or a NUL that came in must come out), and an invalid actum must be
constructible so that ``Chronicarius.record_actum`` can name its field (decision 0002).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from chronica.acta._errors import InvalidActumError

__all__ = [
    "EPOCH",
    "TEXT_CODE_POINTS_MAX",
    "ActorKind",
    "Actum",
    "ActumKind",
    "Chronicum",
    "validate_actum",
]

TEXT_CODE_POINTS_MAX = 1024
"""Longest chronicum id, owner, actor, call id and idempotency key, in code points (record v1)."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
"""``at`` of an actum that no store has stamped yet."""


class ActumKind(StrEnum):
    """What an actum is (the seed, section 02)."""

    MESSAGE = "message"
    THOUGHT = "thought"
    TOOL_REQUEST = "tool_request"
    TOOL_RESPONSE = "tool_response"


class ActorKind(StrEnum):
    """Who did it (the seed, section 02)."""

    HUMAN = "human"
    AGENT = "agent"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True, kw_only=True)
class Actum:
    """One thing that happened in a chronicum.

    Attributes:
        chronicum_id: the session it belongs to; non-empty.
        kind: message, thought, tool request or tool response.
        actor_kind: human, agent or system.
        actor: a stable id for whoever did it; non-empty.
        content: the text; messages and thoughts need some, the tool kinds may be empty.
        call_id: ties a tool response to its request (optional).
        metadata: a JSON object (optional).
        id: assigned when recorded; what the caller put here is replaced.
        at: UTC time of the log's append; advisory, never the order.
        seq: 1..n in the chronicum, in order, without a gap; 0 before it is recorded.
    """

    chronicum_id: str
    kind: ActumKind
    actor_kind: ActorKind
    actor: str
    content: str = ""
    call_id: str | None = None
    metadata: Mapping[str, Any] | None = field(default=None, hash=False)
    id: str = ""
    at: datetime = EPOCH
    seq: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Chronicum:
    """A session: who owns it, and how far it has come.

    Attributes:
        id: non-empty, unique within a tenant.
        owner_id: the one owner who may read and write it.
        created_at: UTC.
        last_activity_at: UTC, ``at`` of the latest actum; never goes back.
        last_seq: ``seq`` of the latest actum, 0 while there is none.
    """

    id: str
    owner_id: str
    created_at: datetime
    last_activity_at: datetime
    last_seq: int = 0


def validate_actum(actum: Actum) -> None:
    """Check an actum before any store is touched (the seed, section 02).

    Raises:
        InvalidActumError: a field is missing, empty, too long or of another type; it names the
            field.
    """
    _check_text("chronicum_id", actum.chronicum_id)
    if actum.kind not in list(ActumKind):
        raise InvalidActumError("kind", f"must be one of {', '.join(ActumKind)}")
    if actum.actor_kind not in list(ActorKind):
        raise InvalidActumError("actor_kind", f"must be one of {', '.join(ActorKind)}")
    _check_text("actor", actum.actor)
    if not isinstance(actum.content, str):
        raise InvalidActumError("content", "must be a string")
    if not actum.content and actum.kind in (ActumKind.MESSAGE, ActumKind.THOUGHT):
        raise InvalidActumError("content", f"must not be empty in a {actum.kind}")
    if actum.call_id is not None:
        _check_text("call_id", actum.call_id)
    if actum.metadata is not None and not isinstance(actum.metadata, Mapping):
        raise InvalidActumError("metadata", "must be a JSON object")


def _check_text(name: str, text: object) -> None:
    if not isinstance(text, str):
        raise InvalidActumError(name, "must be a string")
    if not text:
        raise InvalidActumError(name, "must not be empty")
    if len(text) > TEXT_CODE_POINTS_MAX:
        raise InvalidActumError(name, f"must have at most {TEXT_CODE_POINTS_MAX} code points")
