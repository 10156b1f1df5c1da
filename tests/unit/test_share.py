"""Live recorders share the partitions evenly, without talking to each other."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronica.recorder._share import fair_share, to_claim, to_give_up

PARTITIONS = st.integers(1, 64)
MEMBERS = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=12, unique=True)


@given(PARTITIONS, MEMBERS)
def test_the_shares_are_all_partitions_and_differ_by_one_at_most(
    partitions: int, members: list[int]
) -> None:
    shares = [fair_share(partitions, members, me) for me in members]
    assert sum(shares) == partitions
    assert max(shares) - min(shares) <= 1


@given(PARTITIONS, MEMBERS, st.randoms(use_true_random=False))
def test_the_order_in_which_members_are_seen_changes_no_share(
    partitions: int, members: list[int], random: Random
) -> None:
    shuffled = random.sample(members, len(members))
    for me in members:
        assert fair_share(partitions, shuffled, me) == fair_share(partitions, members, me)


def test_who_is_not_seen_among_the_living_has_no_share() -> None:
    assert fair_share(8, [1, 2], 3) == 0
    assert fair_share(8, [], 3) == 0


def test_what_is_too_much_is_given_up_from_the_highest() -> None:
    assert to_give_up({5, 1, 3}, 2) == [5]
    assert to_give_up({5, 1, 3}, 3) == []
    assert to_give_up({5, 1, 3}, 0) == [1, 3, 5]


@pytest.mark.parametrize(
    ("mine", "held", "share", "claimed"),
    [
        (set(), set(), 2, [0, 1]),
        ({0}, {0, 1}, 3, [2, 3]),
        ({0, 1}, {0, 1}, 2, []),
        ({0, 1, 2}, {0, 1, 2}, 2, []),
        (set(), {0, 1, 2, 3}, 2, []),
        # Its work has begun, but its lock is not seen yet: it is not claimed a second time.
        ({0}, set(), 2, [1]),
    ],
)
def test_free_partitions_are_claimed_up_to_the_share(
    mine: set[int], held: set[int], share: int, claimed: list[int]
) -> None:
    assert to_claim(4, mine, held, share) == claimed


@given(PARTITIONS, MEMBERS, st.data())
def test_whoever_holds_what_at_first_all_come_to_their_share(
    partitions: int, members: list[int], data: st.DataObject
) -> None:
    """Each in turn gives up and claims by what it sees; after as many rounds as it takes, two."""
    holders: dict[int, int | None] = {
        n: data.draw(st.sampled_from([*members, None])) for n in range(partitions)
    }
    for _round in range(2):
        for me in data.draw(st.permutations(members)):
            share = fair_share(partitions, members, me)
            mine = {n for n, holder in holders.items() if holder == me}
            for n in to_give_up(mine, share):
                holders[n] = None
            mine = {n for n, holder in holders.items() if holder == me}
            held = {n for n, holder in holders.items() if holder is not None}
            for n in to_claim(partitions, mine, held, share):
                assert holders[n] is None, "never one that another holds"
                holders[n] = me
    counts = {me: list(holders.values()).count(me) for me in members}
    assert counts == {me: fair_share(partitions, members, me) for me in members}
