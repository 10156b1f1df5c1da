"""JSON the way Chronica keeps it: whatever came in comes out the same.

The standard library's codec and nothing else, because it alone takes lone surrogates, NaN and 1e400
(rule 3.9). What it refuses for Python's sake, not for JSON's (integers of more than 4300 digits),
is added here. Every failure to read is a ``ValueError``, nesting that is too deep included, so that
no document can raise anything that a caller did not expect.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from chronica.acta._big_ints import int_from_digits, int_to_digits

__all__ = ["dump_json", "load_json", "split_array", "split_object"]

_TOO_DEEP = "The JSON document is nested too deep."
_WHITESPACE = re.compile(r"[ \t\n\r]*")


def dump_json(value: object) -> str:
    """Return the compact, ASCII-only JSON text of a value, its keys in their order.

    NaN and the infinities are written as ``NaN``, ``Infinity`` and ``-Infinity``.

    Raises:
        TypeError: something in it has no JSON form.
        ValueError: it contains itself, or is nested too deep.
    """
    try:
        return json.dumps(value, separators=(",", ":"))
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except ValueError:
        # A circle, or an integer that Python does not print. The slow path tells them apart.
        return _dump_with_big_ints(value)


def load_json(text: str | bytes) -> Any:
    """Return the value of a JSON document; bytes are UTF-8, without a byte order mark.

    Integers keep every digit; a float out of range is an infinity; ``NaN`` and lone surrogate
    escapes are taken; of a name that stands twice in an object the last one counts.

    Raises:
        ValueError: it is not one JSON document, not UTF-8, or nested too deep.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8")
    try:
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            raise
        except ValueError:
            # Python's limit on an integer's digits. A second pass, so that only such a document
            # pays for a Python call per integer.
            return json.loads(text, parse_int=int_from_digits)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


def split_object(text: str) -> dict[str, str]:
    """Return the source text of each top-level value of a JSON object, untouched.

    The values are walked and not converted, so their digits, spelling, key order and inner white
    space stay. Of a name that stands twice the last one counts, as everywhere in Python.

    Raises:
        ValueError: it is not one JSON object with nothing after it, or is nested too deep.
    """
    fields: dict[str, str] = {}

    def walk_field(position: int) -> int:
        if text[position : position + 1] != '"':
            raise json.JSONDecodeError("Expecting a name in double quotes", text, position)
        name, position = _WALKER.raw_decode(text, position)
        position = _skip(text, position)
        if text[position : position + 1] != ":":
            raise json.JSONDecodeError("Expecting ':'", text, position)
        start = _skip(text, position + 1)
        _, end = _WALKER.raw_decode(text, start)
        fields[name] = text[start:end]
        return end

    try:
        _walk(text, "{}", "an object", walk_field)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    return fields


def split_array(text: str) -> list[str]:
    """Return the source text of each element of a JSON array, as ``split_object`` does.

    Raises:
        ValueError: it is not one JSON array with nothing after it, or is nested too deep.
    """
    elements: list[str] = []

    def walk_element(position: int) -> int:
        _, end = _WALKER.raw_decode(text, position)
        elements.append(text[position:end])
        return end

    try:
        _walk(text, "[]", "an array", walk_element)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    return elements


def _walk(text: str, brackets: str, name: str, walk_one: Callable[[int], int]) -> None:
    """Walk a document that is one object or array; ``walk_one`` takes each of its parts."""
    position = _skip(text, 0)
    if text[position : position + 1] != brackets[0]:
        raise json.JSONDecodeError(f"Expecting {name}", text, position)
    position = _skip(text, position + 1)
    closed = text[position : position + 1] == brackets[1]
    while not closed:
        position = _skip(text, walk_one(position))
        closed = text[position : position + 1] == brackets[1]
        if not closed:
            if text[position : position + 1] != ",":
                raise json.JSONDecodeError(f"Expecting ',' or '{brackets[1]}'", text, position)
            position = _skip(text, position + 1)
    end = _skip(text, position + 1)
    if end != len(text):
        raise json.JSONDecodeError("Extra data", text, end)


def _skip(text: str, position: int) -> int:
    match = _WHITESPACE.match(text, position)
    return match.end() if match else position


def _no_number(_: str) -> None:
    """Stand in for a number that is only walked over: converting it could be slow or refused."""


_WALKER = json.JSONDecoder(parse_int=_no_number, parse_float=_no_number, parse_constant=_no_number)


def _dump_with_big_ints(value: object) -> str:
    try:
        return _dump(value)
    except RecursionError:
        raise ValueError("The value contains itself, or is nested too deep for JSON.") from None


def _dump(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{_name(k)}:{_dump(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_dump, value)) + "]"
    if isinstance(value, int) and not isinstance(value, bool):
        return int_to_digits(int(value))
    return json.dumps(value)


def _name(key: object) -> str:
    if isinstance(key, str):
        return json.dumps(key)
    if key is None or isinstance(key, int | float):
        # What the standard library does with them: their JSON text becomes the name.
        return f'"{_dump(key)}"'
    raise TypeError(f"A name in a JSON object must be a string, not {type(key).__name__}.")
