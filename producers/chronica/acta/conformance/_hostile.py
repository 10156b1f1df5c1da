"""Texts and JSON values that break careless stores, and the comparison that tells.

"Whatever comes in comes out the same" (rule 3.9): each of these was chosen because some layer
(JSON, UTF-8, Postgres text, COPY, msgspec) refuses, escapes or rewrites it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

__all__ = ["HOSTILE_METADATA", "HOSTILE_TEXTS", "LOOKALIKES", "same_json"]

HOSTILE_TEXTS: Mapping[str, str] = MappingProxyType(
    {
        "NUL": "a\x00b",
        "NUL alone": "\x00",
        "a lone high surrogate": "a\ud800b",
        "a lone low surrogate": "a\udc00b",
        "surrogates in the wrong order": "\udc00\ud800",
        "the six characters of an escaped NUL": "a\\u0000b",
        "the six characters of an escaped surrogate": "a\\ud800b",
        "an escaped NUL and a real one": "\\u0000\x00",
        "emoji": "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1ee\U0001f1e9",
        "the last code point": "\U0010ffff",
        "U+FFFF": "a\uffffb",
        "U+FFFD": "a\ufffdb",
        "a byte order mark": "\ufeffa",
        "U+001A, the end of a file": "a\x1ab",
        "tab, newline, return": "a\tb\nc\rd\r\ne",
        "other line ends": "a\x0b\x0c\x1c\x85\u2028\u2029b",
        "delete and escape": "\x7f\x1b[31m",
        "a backslash": "\\",
        "backslashes and letters": "\\t\\n\\x41\\101",
        "COPY's end": "\\.",
        "COPY's end on a line of its own": "a\n\\.\nb",
        "COPY's NULL": "\\N",
        "the word null": "null",
        "quotes": "\"'`$$;--",
        "braces and commas": '{"a": [1, 2]},',
        "white space alone": " \t ",
        "white space around": "  a  ",
        "percent signs": "%s %(a)s %% %2F",
        "a path": "../a/./b?c=d#e",
        "an e with its accent apart": "e\u0301",
        "right to left": "\u202eabc\u202c",
    }
)
"""Short texts by what they hold; each fits wherever a non-empty text may stand."""

LOOKALIKES: tuple[str, ...] = (
    "a\x00",
    "a\\u0000",
    "a\ud800",
    "a\\ud800",
    "a\udc00",
    "a\ufffd",
    "a?",
    "a",
    "A",
    "a ",
    " a",
    "a\n",
    "a\\n",
    "\u00e9",
    "e\u0301",
)
"""Texts that a careless store takes for one another: as names they are all different."""


def _nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": [value]}
    return value


HOSTILE_METADATA: Mapping[str, dict[str, Any]] = MappingProxyType(
    {
        "nothing": {},
        "an empty name": {"": "empty"},
        "NaN and the infinities": {"nan": math.nan, "inf": math.inf, "minus": -math.inf},
        "NaN deep inside": {"a": [[{"b": math.nan}]]},
        "integers beyond 64 bits": {"a": 2**63, "b": -(2**64), "c": 10**400},
        "an integer beyond Python's digit limit": {"a": 10**5000 + 7, "b": -(10**5000)},
        "floats": {"a": 1.0, "b": -0.0, "c": 0.1, "d": 5e-324, "e": 1.7976931348623157e308},
        "integer, float and boolean of one value": {"a": 1, "b": 1.0, "c": True, "d": "1"},
        "names out of order": {"z": 1, "a": 2, "m": {"y": 1, "b": 2}},
        "null, and a list in a list": {"a": None, "b": [], "c": [[], [None]]},
        "names of an envelope": {"id": "x", "seq": 99, "kind": "message", "metadata": {"a": 1}},
        "hostile texts as values": dict(HOSTILE_TEXTS),
        "hostile texts as names": {text: name for name, text in HOSTILE_TEXTS.items()},
        "fifty levels": _nested(50),
    }
)
"""JSON objects by what they hold."""


def same_json(left: object, right: object) -> bool:
    """Tell whether two JSON values are the same: types, key order, NaN and the sign of zero too."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict) and isinstance(right, dict):
        return list(left) == list(right) and all(same_json(left[k], right[k]) for k in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same_json, left, right))
    if isinstance(left, float) and isinstance(right, float):
        return repr(left) == repr(right)
    return left == right
