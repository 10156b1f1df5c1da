r"""Texts that Postgres can't hold, kept all the same (docs/decisions/0004).

Postgres refuses NUL and has no way to write a lone surrogate. Each such character, and U+001A
itself, is written as U+001A and four hex digits. The mapping is one to one, so equality and
uniqueness of the written form are those of the text; the six characters ``\u0000`` are untouched.
"""

from __future__ import annotations

import re

__all__ = ["copy_text", "from_postgres", "to_postgres"]

_UNHOLDABLE = re.compile("[\x00\x1a\ud800-\udfff]")
_MARKED = re.compile("\x1a([0-9a-f]{4})")
_COPY_SPECIAL = re.compile("[\\\\\t\n\r\x00\x1a\ud800-\udfff]")


def to_postgres(text: str) -> str:
    """Return the form of a text that Postgres can hold."""
    if _UNHOLDABLE.search(text) is None:
        return text
    return _UNHOLDABLE.sub(lambda match: f"\x1a{ord(match[0]):04x}", text)


def from_postgres(text: str) -> str:
    """Return the text of a held form."""
    if "\x1a" not in text:
        return text
    return _MARKED.sub(lambda match: chr(int(match[1], 16)), text)


def copy_text(text: str | None) -> str:
    r"""Return the held form of a text as a field of COPY's text format (``\N`` for None)."""
    if text is None:
        return "\\N"
    if _COPY_SPECIAL.search(text) is None:
        return text
    return (
        to_postgres(text)
        .replace("\\", "\\\\")
        .replace("\t", "\\t")
        .replace("\n", "\\n")
        .replace("\r", "\\r")
    )
