"""A channel: whatever the interleaving, each reader gets each event once, in order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronica.store._channel import Channel, Event


def event(seq: int, size: int = 10) -> Event:
    return Event(seq, b"x" * size)


def seqs(events: list[Event] | None) -> list[int] | None:
    return None if events is None else [each.seq for each in events]


def test_a_channel_has_what_came_since_it_began() -> None:
    channel = Channel(3, events_max=10, bytes_max=1000)
    assert channel.after(3) == []
    assert channel.after(2) is None, "what was before is in Postgres"
    for seq in (4, 5, 6):
        channel.add(event(seq))
    assert seqs(channel.after(3)) == [4, 5, 6]
    assert seqs(channel.after(5)) == [6]
    assert channel.after(6) == channel.after(99) == []
    assert channel.after(0) is None


def test_only_the_next_event_may_come() -> None:
    channel = Channel(3, events_max=10, bytes_max=1000)
    for seq in (3, 5):
        with pytest.raises(AssertionError):
            channel.add(event(seq))


def test_the_oldest_go_by_count_and_by_bytes_and_the_last_stays() -> None:
    channel = Channel(0, events_max=2, bytes_max=100)
    for seq in (1, 2, 3):
        channel.add(event(seq))
    assert channel.after(0) is None
    assert seqs(channel.after(1)) == [2, 3]
    channel.add(event(4, 1000))
    assert channel.after(2) is None
    assert seqs(channel.after(3)) == [4]


@given(
    st.lists(st.one_of(st.integers(1, 5), st.sampled_from(["read", "join"])), max_size=60),
    st.integers(1, 8),
    st.integers(1, 60),
)
def test_every_reader_gets_all_in_order_once(
    steps: list[int | str], events_max: int, bytes_max: int
) -> None:
    table: list[Event] = []
    channel = Channel(0, events_max=events_max, bytes_max=bytes_max)
    readers: list[list[int]] = [[]]

    def read(reader: list[int]) -> None:
        after = reader[-1] if reader else 0
        found = channel.after(after)
        if found is None:
            found = [each for each in table if each.seq > after][:3]
        reader += [each.seq for each in found]

    for step in steps:
        if step == "join":
            readers.append([])
        elif step == "read":
            for reader in readers:
                read(reader)
        else:
            assert isinstance(step, int)
            for _ in range(step):
                table.append(event(len(table) + 1))
                channel.add(table[-1])
    for reader in readers:
        for _ in range(len(table) + 1):
            read(reader)
        assert reader == list(range(1, len(table) + 1))
