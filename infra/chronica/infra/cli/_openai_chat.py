"""From OpenAI chat messages to acta: what each message of a conversation becomes.

Input is a JSON object a line: ``conversation``, ``role``, ``content`` and, where they apply,
``index``, ``tool_calls``, ``tool_call_id`` and ``name``. The chronicum is the conversation.

- system: a message by the system ``system``; user: a message by the human who owns it.
- assistant: its content is a message by the agent ``assistant``, then each tool call is a
  tool request with the call's id and, as content, the call's JSON.
- tool: a tool response by the system, the tool's name its actor.

Null or empty content makes no message. Each part has a key of its own (conversation, index, part;
the content is part 0, the calls follow; the index is counted where there is none), so that a file
can be imported again and nothing doubles.
Pure: no I/O.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from chronica.acta import (
    TEXT_CODE_POINTS_MAX,
    ActorKind,
    Actum,
    ActumKind,
    dump_json,
    load_json,
    validate_actum,
)

from ._numbering import BadIndexError, Numbering

__all__ = ["BadLineError", "ChatMapping", "KeyedActum"]


class BadLineError(ValueError):
    """A line is not a chat message that can be recorded; ``str()`` says why."""


@dataclass(frozen=True, slots=True)
class KeyedActum:
    """An actum and the idempotency key it is recorded with."""

    actum: Actum
    key: str


class ChatMapping:
    """Maps the messages of one file, in their order.

    It remembers which tool each open call is for: a tool's answer need not repeat its name.

    Args:
        owner: the actor of what users say.
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._tools: dict[tuple[str, str], str] = {}
        self._numbering = Numbering()

    def acta(self, line: str | bytes) -> list[KeyedActum]:
        """Return the acta of a line.

        Raises:
            BadLineError: it is not JSON, or not such a message; none of it is returned.
        """
        try:
            message = _object(line)
            conversation = _text(message, "conversation")
        except BadLineError:
            self._numbering.lose()
            raise
        try:
            index = self._numbering.number(conversation, message.get("index"))
        except BadIndexError as error:
            raise BadLineError(str(error)) from error
        acta = self._parts(conversation, message)
        for _part, actum in acta:
            validate_actum(actum)
        return [KeyedActum(actum, _key(conversation, index, part)) for part, actum in acta]

    def _parts(self, conversation: str, message: dict[str, Any]) -> list[tuple[int, Actum]]:
        role = message.get("role")
        content = _content(message.get("content"))
        if role in ("system", "user"):
            actor_kind = ActorKind.SYSTEM if role == "system" else ActorKind.HUMAN
            actor = "system" if role == "system" else self._owner
            return [(0, _message(conversation, actor_kind, actor, content))] if content else []
        if role == "assistant":
            if message.get("function_call") is not None:
                raise BadLineError("function_call is the old form of a call: use tool_calls")
            content = content or _content(message.get("refusal"))
            calls = self._calls(conversation, message.get("tool_calls"))
            said = _message(conversation, ActorKind.AGENT, "assistant", content)
            return [(0, said), *calls] if content else calls
        if role == "tool":
            return [(0, self._response(conversation, message, content))]
        raise BadLineError("role must be one of system, user, assistant, tool")

    def _calls(self, conversation: str, calls: object) -> list[tuple[int, Actum]]:
        if calls is None:
            return []
        if not isinstance(calls, list):
            raise BadLineError("tool_calls must be a list")
        acta = []
        for part, call in enumerate(calls, 1):
            if not isinstance(call, dict):
                raise BadLineError("a tool call must be a JSON object")
            call_id = _text(call, "id", "a tool call's id")
            function = call.get("function")
            if isinstance(function, dict) and isinstance(function.get("name"), str):
                self._tools[conversation, call_id] = function["name"]
            actum = Actum(
                chronicum_id=conversation,
                kind=ActumKind.TOOL_REQUEST,
                actor_kind=ActorKind.AGENT,
                actor="assistant",
                content=dump_json(call),
                call_id=call_id,
            )
            acta.append((part, actum))
        return acta

    def _response(self, conversation: str, message: dict[str, Any], content: str) -> Actum:
        call_id = _text(message, "tool_call_id")
        called = self._tools.pop((conversation, call_id), None)
        name = message.get("name") or called
        if not isinstance(name, str):
            raise BadLineError("name must name the tool, as no earlier call has this tool_call_id")
        return Actum(
            chronicum_id=conversation,
            kind=ActumKind.TOOL_RESPONSE,
            actor_kind=ActorKind.SYSTEM,
            actor=name,
            content=content,
            call_id=call_id,
        )


def _object(line: str | bytes) -> dict[str, Any]:
    try:
        message = load_json(line)
    except ValueError as error:
        raise BadLineError(f"it is not JSON ({error})") from error
    if not isinstance(message, dict):
        raise BadLineError("it is not a JSON object")
    return message


def _message(conversation: str, actor_kind: ActorKind, actor: str, content: str) -> Actum:
    return Actum(
        chronicum_id=conversation,
        kind=ActumKind.MESSAGE,
        actor_kind=actor_kind,
        actor=actor,
        content=content,
    )


def _content(content: object) -> str:
    """Return the text; content in parts is joined if all are texts, else kept as its JSON."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise BadLineError("content must be a string, a list of parts, or null")
    texts = [part.get("text") if isinstance(part, dict) else None for part in content]
    if all(isinstance(text, str) for text in texts):
        return "".join(text for text in texts if isinstance(text, str))
    return dump_json(content)


def _text(fields: dict[str, Any], name: str, shown: str | None = None) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise BadLineError(f"{shown or name} must be a string that isn't empty")
    return value


def _key(conversation: str, index: int, part: int) -> str:
    # Both numbers are last, so that no two parts of any conversations share a key.
    key = f"{conversation}/{index}/{part}"
    if len(key) <= TEXT_CODE_POINTS_MAX:
        return key
    digest = hashlib.sha256(conversation.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{digest}/{index}/{part}"
