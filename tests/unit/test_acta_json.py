"""JSON is kept as it came: what the standard library takes, and integers of any length."""

from __future__ import annotations

import json
import math
import sys
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronica.acta import dump_json, load_json, split_array, split_object
from chronica.acta.conformance import HOSTILE_METADATA, same_json

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
NAMES = st.text() | st.integers() | st.floats() | st.none() | st.booleans()
OBJECTS = st.dictionaries(st.text(st.characters(exclude_categories=())), JSON_VALUES)


def test_json_is_compact_ascii_in_the_order_of_its_keys() -> None:
    text = dump_json({"z": [1, 2.0], "a": "\u00e9\ud800\x00"})
    assert text == r'{"z":[1,2.0],"a":"\u00e9\ud800\u0000"}'


@pytest.mark.parametrize("name", HOSTILE_METADATA)
def test_hostile_values_survive_a_round_trip(name: str) -> None:
    value = HOSTILE_METADATA[name]
    assert same_json(load_json(dump_json(value)), value)


@given(JSON_VALUES)
def test_any_value_is_dumped_as_the_standard_library_does_it(value: Any) -> None:
    assert dump_json(value) == json.dumps(value, separators=(",", ":"))
    assert same_json(load_json(dump_json(value)), json.loads(json.dumps(value)))


@given(st.dictionaries(NAMES, JSON_VALUES))
def test_a_big_integer_beside_them_changes_no_other_value(value: dict[Any, Any]) -> None:
    big = dump_json([value, 10**5000])
    assert big == f"[{dump_json(value)},1{'0' * 5000}]"


def test_integers_of_any_length_keep_every_digit() -> None:
    powers = [10**599, 10**600, 10**4299, 10**4300, 7**9999, 2**70000]
    for number in (0, *powers, *(n - 1 for n in powers), *(-n for n in powers)):
        assert load_json(dump_json({"a": number})) == {"a": number}


def test_a_big_integer_is_read_within_the_lowest_limit_python_can_have() -> None:
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        assert load_json("9" * 5000) == 10**5000 - 1
        assert dump_json(10**5000 - 1) == "9" * 5000
    finally:
        sys.set_int_max_str_digits(limit)


def test_a_number_of_a_million_digits_is_no_way_to_stop_a_process() -> None:
    began = time.process_time()
    assert dump_json(load_json("7" * 1_000_000)) == "7" * 1_000_000
    # A quadratic conversion takes most of a minute here, this one about a second.
    assert time.process_time() - began < 20


def test_numbers_out_of_range_and_without_a_value_are_taken() -> None:
    assert load_json("1e400") == math.inf
    assert load_json("-1e400") == -math.inf
    assert math.isnan(load_json("NaN"))


def test_bytes_are_utf_8_and_nothing_else() -> None:
    assert load_json('"é\U0001f600"'.encode()) == "é\U0001f600"
    for wrong in ('"a"'.encode("utf-16"), b'"\xff"', b'\xef\xbb\xbf"a"', b'"\xed\xa0\x80"'):
        with pytest.raises(ValueError):
            load_json(wrong)


def test_what_is_not_json_is_a_value_error() -> None:
    big = "9" * 5000
    deep = "[" * 100_000
    for text in ("", "{", "[1,]", "nul", '"\n"', "1 2", deep, f"{big}x", f"[{big},{deep}"):
        with pytest.raises(ValueError):
            load_json(text)


def test_what_has_no_json_form_is_an_error() -> None:
    circle: list[Any] = []
    circle.append(circle)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for value in (circle, deep, [10**5000, circle]):
        with pytest.raises(ValueError):
            dump_json(value)
    for unknown in (object(), {(): 1}, {1, 2}, b"", [10**5000, object()], [10**5000, {(): 1}]):
        with pytest.raises(TypeError):
            dump_json(unknown)


def test_an_object_is_split_into_the_source_text_of_its_values() -> None:
    text = ' {"a" : [1,  {"b":NaN}] ,\n"\\u0062":1e400,"c": "\\ud800 \\" }","d":-0.00, "":null} '
    assert split_object(text) == {
        "a": '[1,  {"b":NaN}]',
        "b": "1e400",
        "c": '"\\ud800 \\" }"',
        "d": "-0.00",
        "": "null",
    }
    assert split_object("{}") == split_object(" { } ") == {}


def test_of_a_name_that_stands_twice_the_last_value_counts() -> None:
    assert split_object('{"a":1,"b":2,"\\u0061":3}') == {"a": "3", "b": "2"}


def test_splitting_never_converts_a_number() -> None:
    # Converting would be refused: Python's limit is 4300 digits.
    digits = "7" * 1_000_000
    assert split_object(f'{{"a":{digits},"b":[-{digits}]}}') == {"a": digits, "b": f"[-{digits}]"}


@given(OBJECTS, st.sampled_from([None, 1]))
def test_the_parts_of_an_object_are_its_values(value: dict[str, Any], indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    parts = {name: load_json(part) for name, part in split_object(text).items()}
    assert same_json(parts, load_json(text))


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "[]",
        "1",
        "null",
        "{",
        "{a:1}",
        "{1:1}",
        '{"a"}',
        '{"a":}',
        '{"a":1',
        '{"a":1,}',
        '{,"a":1}',
        '{"a":1 "b":2}',
        '{"a":1}}',
        '{"a":1} {}',
        '{"a":\u00a01}',
        '\ufeff{"a":1}',
        '{"a',
        '{"a":"\n"}',
        '{"a":01}',
        pytest.param('{"a":' + "[" * 100_000 + "]" * 100_000 + "}", id="too deep"),
    ],
)
def test_what_is_not_one_object_cannot_be_split(text: str) -> None:
    with pytest.raises(ValueError):
        split_object(text)


@given(st.lists(JSON_VALUES))
def test_an_array_is_split_into_the_source_text_of_its_elements(values: list[Any]) -> None:
    text = json.dumps(values, indent=1)
    elements = split_array(text)
    assert all(element in text for element in elements)
    assert same_json([load_json(element) for element in elements], values)


def test_an_array_keeps_digits_white_space_and_order() -> None:
    assert split_array(' [ 1e400 ,{"b" : 1, "a":NaN},"\\ud800" ] ') == [
        "1e400",
        '{"b" : 1, "a":NaN}',
        '"\\ud800"',
    ]
    assert split_array("[]") == split_array(" [ ] ") == []


@pytest.mark.parametrize(
    "text", ["", "{}", "1", "[", "[1", "[1,", "[1,]", "[,1]", "[1 2]", "[1]]", "[1] x", "[" * 10**6]
)
def test_what_is_no_array_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        split_array(text)
