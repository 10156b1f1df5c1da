r"""Texts that Postgres can't hold are held all the same, one to one, through COPY as well."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronica.projections._text import copy_text, from_postgres, to_postgres

# Everything that means something to one of the two escapings, close together.
TEXTS = st.text(st.characters(exclude_categories=())) | st.text(
    st.sampled_from("\x00\x1a\ud800\udfff\ud7ff\ue000\\\t\n\r\x08\x0c\x0b.Nu0018adfx")
)


def copy_reads(field: str) -> str | None:
    r"""Return what COPY FROM makes of a field, by the rules of its text format."""
    if field == "\\N":
        return None
    assert not re.search("[\t\n\r]", field), "it would end the field or the row"
    short = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}

    def unescape(match: re.Match[str]) -> str:
        if match["octal"]:
            return chr(int(match["octal"], 8) & 0xFF)
        if match["hex"]:
            return chr(int(match["hex"], 16))
        return short.get(match["char"], match["char"])

    escapes = r"\\(?:(?P<octal>[0-7]{1,3})|x(?P<hex>[0-9A-Fa-f]{1,2})|(?P<char>.))"
    return re.sub(escapes, unescape, field, flags=re.DOTALL)


def test_every_code_point_comes_back() -> None:
    held = set()
    for number in range(0x110000):
        form = to_postgres(chr(number))
        assert from_postgres(form) == chr(number)
        held.add(form)
    assert len(held) == 0x110000, "no two are held as one"


def test_postgres_can_hold_every_form() -> None:
    form = to_postgres("".join(map(chr, range(0x110000))))
    assert "\x00" not in form
    form.encode()  # raises on a surrogate
    assert from_postgres(form) == "".join(map(chr, range(0x110000)))


@given(TEXTS)
def test_any_text_comes_back(text: str) -> None:
    form = to_postgres(text)
    assert "\x00" not in form
    form.encode()
    assert from_postgres(form) == text


@given(TEXTS, TEXTS)
def test_two_texts_are_equal_if_and_only_if_their_forms_are(a: str, b: str) -> None:
    assert (to_postgres(a) == to_postgres(b)) == (a == b)
    assert to_postgres(a) + to_postgres(b) == to_postgres(a + b)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("\x00", "\x1a0000"),
        ("\x1a", "\x1a001a"),
        ("\x1a0000", "\x1a001a0000"),
        ("\ud800\udfff", "\x1ad800\x1adfff"),
        ("\\u0000", "\\u0000"),
        ("\U0001f600\u2028\x7f", "\U0001f600\u2028\x7f"),
        ("", ""),
    ],
)
def test_the_form_of_a_text_never_changes(text: str, form: str) -> None:
    assert to_postgres(text) == form
    assert from_postgres(form) == text


@given(TEXTS)
def test_copy_reads_a_text_as_its_form(text: str) -> None:
    field = copy_text(text)
    assert copy_reads(field) == to_postgres(text)
    assert f"{field}\n" != "\\.\n", "the end of the data"


@pytest.mark.parametrize("text", ["\\N", "\\.", "\\", "\\n", "\n", "\t", "\r\n", "", "N", "\\\\N"])
def test_what_means_something_to_copy_is_read_as_text(text: str) -> None:
    assert copy_reads(copy_text(text)) == text


def test_none_is_copys_null() -> None:
    assert copy_text(None) == "\\N"
    assert copy_reads(copy_text(None)) is None
