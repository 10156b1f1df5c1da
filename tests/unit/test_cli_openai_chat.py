"""From OpenAI chat messages to acta: what `chronica import` makes of each line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chronica.acta import InvalidActumError
from chronica.infra.cli._openai_chat import BadLineError, ChatMapping, KeyedActum


def line(**fields: Any) -> str:
    return json.dumps({"conversation": "c1", "index": 3, **fields})


def mapped(**fields: Any) -> list[KeyedActum]:
    return ChatMapping("ardian").acta(line(**fields))


def shape(keyed: KeyedActum) -> tuple[str, str, str, str, str | None, str]:
    actum = keyed.actum
    return actum.kind, actum.actor_kind, actum.actor, actum.content, actum.call_id, keyed.key


def call(number: int) -> dict[str, Any]:
    return {"function": {"arguments": '{"a": 1}', "name": f"f{number}"}, "id": f"call_{number}"}


def test_a_system_message_is_by_system() -> None:
    (keyed,) = mapped(role="system", content="Be kind.")
    assert keyed.actum.chronicum_id == "c1"
    assert shape(keyed) == ("message", "system", "system", "Be kind.", None, "c1/3/0")


def test_a_user_message_is_by_the_human_who_owns_the_chronicum() -> None:
    (keyed,) = mapped(role="user", content="Hello")
    assert shape(keyed) == ("message", "human", "ardian", "Hello", None, "c1/3/0")


def test_an_assistants_content_comes_before_its_tool_calls() -> None:
    said, first, second = mapped(role="assistant", content="I look.", tool_calls=[call(1), call(2)])
    assert shape(said) == ("message", "agent", "assistant", "I look.", None, "c1/3/0")
    assert shape(first)[:3] == ("tool_request", "agent", "assistant")
    assert json.loads(first.actum.content) == call(1)
    assert [first.actum.call_id, second.actum.call_id] == ["call_1", "call_2"]
    assert [first.key, second.key] == ["c1/3/1", "c1/3/2"]


@pytest.mark.parametrize("content", [None, ""])
def test_null_or_empty_content_makes_no_message(content: str | None) -> None:
    assert mapped(role="user", content=content) == []
    assert mapped(role="system", content=content) == []
    (only,) = mapped(role="assistant", content=content, tool_calls=[call(1)])
    assert only.key == "c1/3/1", "a part's key does not depend on the parts before it"


def test_a_tool_message_is_a_response_by_the_tool_and_may_be_empty() -> None:
    (keyed,) = mapped(role="tool", content="", tool_call_id="call_1", name="search")
    assert shape(keyed) == ("tool_response", "system", "search", "", "call_1", "c1/3/0")


def test_a_tool_message_without_a_name_takes_that_of_its_call() -> None:
    mapping = ChatMapping("ardian")
    mapping.acta(line(role="assistant", content=None, tool_calls=[call(7)]))
    (keyed,) = mapping.acta(line(role="tool", content="4", tool_call_id="call_7"))
    assert keyed.actum.actor == "f7"


def test_content_in_parts_is_joined_and_what_is_not_text_is_kept_as_json() -> None:
    texts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert mapped(role="user", content=texts)[0].actum.content == "ab"
    mixed = [*texts, {"type": "image_url", "image_url": {"url": "x"}}]
    assert json.loads(mapped(role="user", content=mixed)[0].actum.content) == mixed


def test_a_refusal_is_what_the_assistant_said() -> None:
    (keyed,) = mapped(role="assistant", content=None, refusal="I can't.")
    assert keyed.actum.content == "I can't."


def test_content_comes_through_untouched() -> None:
    content = 'a\x00b \ud800 \\u0000 é 🙂 \r\n"'
    assert mapped(role="user", content=content)[0].actum.content == content


def test_keys_stay_apart_and_within_their_length() -> None:
    mapping = ChatMapping("o")
    pairs = [("a/1", 2), ("a", 1), ("x" * 1024, 1), ("x" * 1023 + "y", 1), ("x" * 1024, 2)]
    keys = [
        mapping.acta(json.dumps({"conversation": c, "index": n, "role": "user", "content": "x"}))
        for c, n in pairs
    ]
    assert len({keyed[0].key for keyed in keys}) == len(pairs)
    assert all(len(keyed[0].key) <= 1024 for keyed in keys)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not JSON"),
        (b"\xff", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "not a JSON object"),
        (line(role="user", content="x", conversation=""), "conversation"),
        (line(role="user", content="x", conversation=7), "conversation"),
        (line(role="user", content="x", index=-1), "index"),
        (line(role="user", content="x", index=True), "index"),
        (line(role="user", content=5), "content"),
        (line(role="teacher", content="x"), "role"),
        (line(content="x"), "role"),
        (line(role="assistant", tool_calls={}), "tool_calls"),
        (line(role="assistant", tool_calls=[1]), "tool call"),
        (line(role="assistant", tool_calls=[{}]), "id"),
        (line(role="assistant", function_call={"name": "f"}), "function_call"),
        (line(role="tool", content="x"), "tool_call_id"),
        (line(role="tool", content="x", tool_call_id="call_1"), "name"),
        (line(role="tool", content="x", tool_call_id="call_1", name=5), "name"),
    ],
)
def test_a_bad_line_says_what_is_wrong(text: str | bytes, says: str) -> None:
    with pytest.raises(BadLineError, match=says):
        ChatMapping("ardian").acta(text)


def test_what_no_actum_may_be_is_refused_with_its_field() -> None:
    with pytest.raises(InvalidActumError, match="chronicum_id"):
        mapped(role="user", content="x", conversation="x" * 1025)


def keys(*lines: dict[str, Any] | str) -> list[str]:
    """Return the key of each line, or why it is refused."""
    mapping = ChatMapping("o")
    found = []
    for fields in lines:
        text = fields if isinstance(fields, str) else json.dumps(fields)
        try:
            (keyed,) = mapping.acta(text)
            found.append(keyed.key)
        except BadLineError as error:
            found.append(str(error))
    return found


def said(conversation: str, **fields: Any) -> dict[str, Any]:
    return {"conversation": conversation, "role": "user", "content": "x", **fields}


def test_without_an_index_the_lines_of_a_conversation_are_counted() -> None:
    assert keys(said("a"), said("b"), said("a"), said("a", index=None)) == [
        "a/0/0",
        "b/0/0",
        "a/1/0",
        "a/2/0",
    ]
    refused = said("a", role="teacher")
    assert keys(refused, said("a"))[1] == "a/1/0", "once mended it has its number"
    assert keys(said("a", index=0), said("a"))[1] == "a/1/0"


def test_a_line_whose_number_could_be_anothers_is_refused() -> None:
    assert "mend that one" in keys("{", said("a"))[1], "it may be a line of this conversation"
    assert keys("{", said("a", index=7))[1] == "a/7/0", "an index doesn't depend on other lines"
    assert "no index" in keys(said("a", index=1), said("a"))[1]
    assert "count up to 1" in keys(said("a"), said("a", index=0))[1]
