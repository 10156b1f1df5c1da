"""Position tokens: opaque, safe anywhere in a URL, and nothing but a position ever comes out."""

from __future__ import annotations

import base64
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chronica.log import Entry, InvalidPositionError, Position

LOG = "0123456789abcdef" * 2
ENTRIES = st.lists(
    st.builds(
        Entry,
        topic=st.sampled_from(["acta", "envelopes", "control"]),
        partition=st.integers(0, 2**31 - 1) | st.integers(0, 3),
        offset=st.integers(0, 2**63 - 1),
    ),
    min_size=1,
    max_size=8,
)


def token_of(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


@given(ENTRIES)
def test_a_token_is_parsed_as_the_position_it_was_made_of(entries: list[Entry]) -> None:
    position = Position.of(LOG, entries)
    assert Position.parse(str(position)) == position


@given(ENTRIES)
def test_a_token_is_safe_in_a_header_a_path_and_a_query(entries: list[Entry]) -> None:
    assert re.fullmatch("[A-Za-z0-9_-]+", str(Position.of(LOG, entries)))


@given(ENTRIES, st.randoms(use_true_random=False))
def test_the_furthest_of_each_partition_counts_in_any_order(
    entries: list[Entry], random: object
) -> None:
    position = Position.of(LOG, entries)
    places = {(e.topic, e.partition) for e in entries}
    assert [(e.topic, e.partition) for e in position.entries] == sorted(places)
    for entry in position.entries:
        same = [e.offset for e in entries if (e.topic, e.partition) == entry[:2]]
        assert entry.offset == max(same)
    assert Position.of(LOG, reversed(entries)) == position


def test_a_token_of_today_stays_readable() -> None:
    token = "MTswMTIzNDU2Nzg5YWJjZGVmMDEyMzQ1Njc4OWFiY2RlZjthY3RhOjA6NyxhY3RhOjM6NDI"
    position = Position(LOG, (Entry("acta", 0, 7), Entry("acta", 3, 42)))
    assert Position.parse(token) == position
    assert str(position) == token


def refuses_or_returns(token: str) -> None:
    try:
        position = Position.parse(token)
    except InvalidPositionError:
        return
    assert Position.parse(str(position)) == position


@given(st.text(st.characters(exclude_categories=())))
@example("\ud800")
@example("=")
@example("A")
@example("AA=A")
@example("\u0661")
def test_garbage_is_never_more_than_an_invalid_position(token: str) -> None:
    with pytest.raises(InvalidPositionError):
        Position.parse(token)


@given(
    st.text(st.characters(exclude_categories=["Cs"])).map(token_of)
    | st.binary().map(lambda data: base64.urlsafe_b64encode(data).decode())
)
def test_encoded_garbage_is_never_more_than_an_invalid_position(token: str) -> None:
    refuses_or_returns(token)


GOOD_TOKEN = str(Position.of(LOG, [Entry("acta", 3, 42)]))


@given(st.integers(0, len(GOOD_TOKEN)), st.integers(0, 3), st.text(max_size=3))
def test_a_spoilt_token_is_a_position_or_an_invalid_one(start: int, cut: int, put: str) -> None:
    refuses_or_returns(GOOD_TOKEN[:start] + put + GOOD_TOKEN[start + cut :])


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"1;{LOG};",
        f"2;{LOG};acta:0:7",
        f"1;{LOG[:-1]};acta:0:7",
        f"1;{LOG.upper()};acta:0:7",
        f"1;{LOG};acta:0",
        f"1;{LOG};acta:0:-7",
        f"1;{LOG};acta:-1:7",
        f"1;{LOG};acta:0:7,",
        f"1;{LOG};acta:0:7\n",
        f"1;{LOG};Acta:0:7",
        f"1;{LOG};acta:0:{2**63}",
        f"1;{LOG};acta:{2**31}:7",
        f"1;{LOG};acta:0:{'0' * 30}7",
        f"1;{LOG};acta:0:{'1' * 5000}",
        f"1;{LOG};acta:0:\u0667",
        f"1;{LOG};" + ",".join(f"acta:{n}:7" for n in range(1001)),
    ],
)
def test_what_was_never_given_out_is_refused(text: str) -> None:
    with pytest.raises(InvalidPositionError):
        Position.parse(token_of(text))


def test_the_largest_places_are_positions() -> None:
    position = Position(LOG, (Entry("acta", 2**31 - 1, 2**63 - 1),))
    assert Position.parse(str(position)) == position
    many = Position.of(LOG, [Entry("acta", n, 7) for n in range(1000)])
    assert Position.parse(str(many)) == many
