"""Two parsers read the log, and nobody can tell which one it was: one answer to any bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.harness.submissions import create

from chronica.log import (
    InvalidRecordError,
    Submission,
    decode_submission,
    encode_submission,
    partition_key,
)
from chronica.log._decode import _fast
from chronica.log._decode_stdlib import decode_by_stdlib

FIELDS: dict[str, str] = {
    "type": '"actum"',
    "version": "1",
    "id": '"s1"',
    "tenant": '"t"',
    "chronicum": '"dinner"',
    "owner": '"ann"',
    "key": '"k"',
    "expected_seq": "3",
    "enc": "null",
    "kind": '"message"',
    "actor_kind": '"human"',
    "actor": '"ann"',
    "future": "[1]",
}
PAYLOAD: dict[str, str] = {
    "content": '"hello"',
    "call_id": '"call"',
    "metadata": '{"a":1}',
    "future": "{}",
}


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


CONSTANTS = r"""
null true false nul NaN Infinity -Infinity
0 1 3 -0 -1 01 +1 .5 1. - --1 1.0 1e0 10e-1 1.5 -0.0 0x1 1_0 1e18 1e400
9223372036854775807 9223372036854775808 9223372036854775807.0
"" "x" "1" "k" "\x" "\u12" "\/\b\f" " 'x' "\u0000" "\\u0000"
"\ud800" "\ud83d\ude00" "\ude00\ud83d"
"actum" "create" "control" "thought" "tool_request" "agent" "ACTUM"
[] {} [1,] [,] {"a":1,} {a:1} {"a":1}{} {"a":"\"}{"} {"a":"\ud800"} {"a":NaN}
{"a":01} {"a":1.} {"a":-} {"a":1e} {"a":tru} {"\q":1} {"content":"x"} {"content":""}
"""
SPACED = (
    *("", " ", "\u0661", '"\t"', '"\x7f"', '"\ufeff"', '"\u00a0"', '{"a":"\t"}', '{"a":\x0c1}'),
    *(' {"z" : 1.0e5,"a":[ 1 ] , "z":"\\u00e9" } ', '{"a":"\u2028\U0001f600"}', '{"a" 1}'),
)
LONG = (
    *("1" * 30, "1" * 5000, "-" + "1" * 5000, "1" * 5000 + ".0"),
    *(f'"{what * count}"' for what in ("x", "\U0001f600", "\\ud800") for count in (1024, 1025)),
    *('{"a":' + nested(depth) + "}" for depth in (252, 253, 254)),
    *(nested(depth) for depth in (253, 254, 255, 256, 257)),
)
SOURCES = st.sampled_from([*CONSTANTS.split(), *SPACED, *LONG])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
SPACES = st.sampled_from(["", "", "", " ", "\n\t\r ", "\x0b", "\ufeff", "\u00a0"])


@st.composite
def objects(draw: st.DrawFn, /, fields: dict[str, str], **more: st.SearchStrategy[str]) -> str:
    """Return the source text of an object: good fields, a few of them spoilt in any way."""
    pairs = list(fields.items()) + [(name, draw(value)) for name, value in more.items()]
    for _ in range(draw(st.integers(0, 3))):
        name = draw(st.sampled_from([*fields, *more]))
        source = draw(SOURCES | VALUES.map(lambda v: json.dumps(v, ensure_ascii=False)))
        index = draw(st.integers(0, len(pairs)))
        match draw(st.sampled_from(["replace", "twice", "drop", "escape"])):
            case "replace":
                pairs = [(n, source if n == name else s) for n, s in pairs]
            case "twice":
                pairs.insert(index, (name, source))
            case "drop":
                pairs = [(n, s) for n, s in pairs if n != name]
            case _:
                escaped = "".join(f"\\u{ord(c):04x}" for c in name)
                pairs = [(escaped if n == name else n, s) for n, s in pairs]
    pairs = draw(st.permutations(pairs)) if draw(st.booleans()) else pairs
    space = draw(SPACES)
    inner = ",".join(f'{space}"{name}"{space}:{source}{space}' for name, source in pairs)
    return f"{{{inner}}}{space}"


def decode(value: bytes) -> Submission:
    key = partition_key("t", "dinner")
    return decode_submission(key, value, topic="acta", partition=0, offset=7, partitions=1)


def reason_of(decoding: Callable[[], Submission]) -> Submission | str:
    """Return what was decoded, or the reason why nothing was."""
    try:
        return decoding()
    except InvalidRecordError as error:
        return error.reason


def ways_agree(value: bytes) -> None:
    """Whatever the fast path accepts, the standard library reads as the same."""
    found = reason_of(lambda: decode(value))
    if found in ("not_utf8", "too_deep"):
        return  # judged before any parser
    slow = reason_of(lambda: decode_by_stdlib(value.decode()))
    fast = _fast(value)
    if fast is not None:
        assert fast == slow
    if isinstance(slow, Submission):
        slow = replace(slow, id=slow.id or "acta-0-7")
        if (slow.tenant, slow.chronicum) != ("t", "dinner"):
            slow = "wrong_key"
    assert found == slow


@given(objects(FIELDS, payload=objects(PAYLOAD)))
@settings(max_examples=400)
def test_both_parsers_agree_on_any_record(text: str) -> None:
    ways_agree(text.encode("utf-8", "surrogatepass"))


GOOD = ("{" + ",".join(f'"{n}":{s}' for n, s in FIELDS.items()) + ',"payload":{%s}}').encode() % (
    ",".join(f'"{n}":{s}' for n, s in PAYLOAD.items()).encode()
)


@given(
    st.integers(0, len(GOOD)),
    st.integers(0, 6),
    st.binary(max_size=4) | st.sampled_from([b'"', b"\\", b"\\ud800", b"\xef\xbb\xbf", b"NaN"]),
)
@example(0, 0, b"\xef\xbb\xbf")
@example(len(GOOD), 0, b"\x00")
@settings(max_examples=1000)
def test_both_parsers_agree_on_broken_bytes(start: int, cut: int, put: bytes) -> None:
    ways_agree(GOOD[:start] + put + GOOD[start + cut :])


def test_the_fast_path_is_the_one_that_is_taken() -> None:
    assert _fast(GOOD) == decode(GOOD)
    assert _fast(encode_submission(create())) == create()
