"""How live recorders share the partitions: evenly, by counting, without talking to each other."""

from __future__ import annotations

from collections.abc import Collection, Sequence

__all__ = ["fair_share", "to_claim", "to_give_up"]


def fair_share(partitions: int, members: Sequence[int], me: int) -> int:
    """Return how many partitions a recorder may hold; the shares differ by one at most.

    Args:
        partitions: how many there are.
        members: the numbers of the live recorders.
        me: the one asked for; one that is not among them has no share.
    """
    ranked = sorted(members)
    if me not in ranked:
        return 0
    share, left = divmod(partitions, len(ranked))
    return share + (1 if ranked.index(me) < left else 0)


def to_give_up(mine: Collection[int], share: int) -> list[int]:
    """Return which of its partitions a recorder gives up: the highest of those over its share."""
    return sorted(mine)[share:]


def to_claim(
    partitions: int, mine: Collection[int], held: Collection[int], share: int
) -> list[int]:
    """Return which partitions a recorder tries to claim: free ones, up to its share."""
    free = [n for n in range(partitions) if n not in mine and n not in held]
    return free[: max(0, share - len(mine))]
