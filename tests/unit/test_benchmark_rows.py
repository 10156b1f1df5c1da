"""The benchmarks' arithmetic: what holds, what doesn't, and what could not be measured."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
from tests import benchmarks
from tests.benchmarks.report import write_json
from tests.benchmarks.rows import Spec, at_least, at_most, median, percentile

from chronica.infra.embedded._jars import read_lock


@pytest.mark.parametrize(
    ("value", "against", "holds"), [(50.0, 100.0, True), (49.0, 100.0, False), (1.0, 0.0, False)]
)
def test_what_should_be_large_holds_from_its_reach_on(
    value: float, against: float, holds: bool
) -> None:
    row = Spec("appends", "acta/s", "a peer", at_least(0.5)).measured(value, against)
    assert row.holds is holds
    assert row.reach == ">= 0.5"


@pytest.mark.parametrize(("value", "holds"), [(10.0, True), (10.1, False)])
def test_what_should_be_small_holds_up_to_its_reach(value: float, holds: bool) -> None:
    row = Spec("latency", "ms", "the limit", at_most(1)).measured(value, 10.0)
    assert row.holds is holds


def test_no_number_holds_nothing() -> None:
    assert not at_least(1).holds(math.nan)
    assert not at_most(1).holds(math.nan)


def test_what_could_not_be_measured_says_why_and_does_not_hold(tmp_path: Path) -> None:
    spec = Spec("appends", "acta/s", "a peer", at_least(0.5))
    path = tmp_path / "build" / "bench.json"
    write_json(path, [spec.missing("the peer is not there."), spec.measured(3.0, 4.0)])
    missing, measured = json.loads(path.read_text())
    assert (missing["value"], missing["ratio"], missing["holds"]) == (None, None, False)
    assert missing["note"] == "Not measured: the peer is not there."
    assert measured == {
        "name": "appends",
        "value": 3.0,
        "unit": "acta/s",
        "against": "a peer",
        "against_value": 4.0,
        "ratio": 0.75,
        "reach": ">= 0.5",
        "holds": True,
        "note": "",
    }


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(n) for n in range(100, 0, -1)]
    assert percentile(values, 99) == 99.0
    assert percentile(values, 100) == 100.0
    assert median(values) == 50.0
    assert median([3.0, 1.0, 2.0]) == 2.0
    assert percentile([7.0], 1) == 7.0


@pytest.mark.parametrize("lock", ["connect.lock", "debezium.lock"])
def test_the_peers_jars_are_pinned(lock: str) -> None:
    path = Path(benchmarks.__path__[0]) / lock
    jars = read_lock(path)
    assert jars
    assert all(re.fullmatch(r"[0-9a-f]{64}", jar.sha256) for jar in jars)
    assert not {jar.coordinates for jar in jars} & {jar.coordinates for jar in read_lock()}
    assert "//" not in path.read_text()
