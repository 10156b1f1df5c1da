"""A record's key and its partition: those of the Java client, for ever."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronica.log import partition_key, partition_of

# Kafka's own: org.apache.kafka.common.utils.UtilsTest.testMurmur2
JAVA_MURMUR2 = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}

ANY_TEXT = st.text(st.characters(exclude_categories=()))


@pytest.mark.parametrize("key", JAVA_MURMUR2)
@pytest.mark.parametrize("partitions", [1, 2, 7, 8, 1024])
def test_a_key_belongs_where_the_java_client_puts_it(key: bytes, partitions: int) -> None:
    # Utils.toPositive clears the sign bit, which is not the absolute value.
    assert partition_of(key, partitions) == (JAVA_MURMUR2[key] & 0x7FFFFFFF) % partitions


@pytest.mark.parametrize(
    ("tenant", "chronicum", "key"),
    [
        ("local", "dinner-friday", b'["local","dinner-friday"]'),
        ('a"b', "c\\d", b'["a\\"b","c\\\\d"]'),
        ("\u00e9", "\U0001f600", b'["\\u00e9","\\ud83d\\ude00"]'),
        ("\x00", "\ud800", b'["\\u0000","\\ud800"]'),
        ("a\n", "/", b'["a\\n","/"]'),
    ],
)
def test_a_key_is_the_canonical_array_in_ascii(tenant: str, chronicum: str, key: bytes) -> None:
    assert partition_key(tenant, chronicum) == key


def test_where_chronica_belong_never_changes() -> None:
    homes = [partition_of(partition_key("local", f"chronicum-{n}"), 8) for n in range(12)]
    assert homes == [2, 6, 2, 4, 4, 5, 7, 5, 1, 5, 3, 2]


@given(ANY_TEXT, ANY_TEXT, ANY_TEXT, ANY_TEXT)
def test_two_chronica_have_two_keys(a: str, b: str, c: str, d: str) -> None:
    assert partition_key(a, b) != partition_key(b, a) or a == b
    if (a, b) != (c, d) and partition_key(a, b) == partition_key(c, d):
        # Only two lone surrogates side by side, which JSON can't tell from their character.
        assert json.loads(json.dumps([a, b])) == json.loads(json.dumps([c, d]))


@given(ANY_TEXT, ANY_TEXT, st.integers(1, 1024))
def test_every_key_has_a_partition(tenant: str, chronicum: str, partitions: int) -> None:
    assert 0 <= partition_of(partition_key(tenant, chronicum), partitions) < partitions
