"""The recorder under everything that can happen to it, seeded.

A run that fails names its seed: ``CHRONICA_SEED=<n>`` runs that one alone.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

import pytest
from tests.simulation.sim_postgres import Postgres
from tests.simulation.sim_recorder import PARTITIONS, RecorderWorld

from chronica.recorder._state import PartitionState

SEEDS = 5_000
SEEDS_TO_CATCH = 50


def seeds() -> range:
    """The seeds of this run: all under ``make soak``, a tenth otherwise, or the one asked for."""
    if only := os.environ.get("CHRONICA_SEED"):
        return range(int(only), int(only) + 1)
    return range(SEEDS if os.environ.get("CHRONICA_SOAK") else SEEDS // 10)


def run(seed: int, new_world: Callable[[int], RecorderWorld] = RecorderWorld) -> RecorderWorld:
    world = new_world(seed)
    try:
        world.run()
    except Exception as error:
        raise AssertionError(f"CHRONICA_SEED={seed}: {error}") from error
    return world


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_whatever_happens_the_rows_are_those_of_one_undisturbed_recorder() -> None:
    happened: Counter[str] = Counter()
    recorded: Counter[str] = Counter()
    for seed in seeds():
        world = run(seed)
        happened.update(world.happened)
        recorded.update({name: len(rows) for name, rows in world.postgres.tables.items()})
    if len(seeds()) > 100:
        # A simulation in which nothing goes wrong proves nothing.
        assert {
            "ClaimLostError",
            "LogUnavailableError",
            "PostgresUnavailableError",
            "answers lost",
            "commits taken back",
            "written after death",
        } <= happened.keys()
        assert all(recorded.values()), recorded


class Unforgetting(PartitionState):
    """Goes on with what it knew after a batch was not written."""

    def forget(self) -> None:
        pass


def without_compare_and_set(seed: int) -> RecorderWorld:
    return RecorderWorld(seed, new_postgres=lambda: Postgres(PARTITIONS, compares=False))


def without_one_transaction(seed: int) -> RecorderWorld:
    return RecorderWorld(seed, new_postgres=lambda: Postgres(PARTITIONS, atomic=False))


def without_forgetting(seed: int) -> RecorderWorld:
    return RecorderWorld(seed, new_state=Unforgetting)


@pytest.mark.parametrize(
    "broken", [without_compare_and_set, without_one_transaction, without_forgetting]
)
def test_the_simulation_catches_a_broken_rule(broken: Callable[[int], RecorderWorld]) -> None:
    def run_all() -> None:
        for seed in range(SEEDS_TO_CATCH):
            run(seed, broken)

    with pytest.raises(AssertionError, match="CHRONICA_SEED="):
        run_all()


def test_a_seed_is_a_story_that_can_be_told_again() -> None:
    first, second = run(7), run(7)
    assert first.logs[0].slots == second.logs[0].slots
    assert first.postgres.tables == second.postgres.tables
    assert first.happened == second.happened
