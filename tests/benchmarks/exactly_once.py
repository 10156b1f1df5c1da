"""What exactly-once costs: the recorder against itself without what makes it so."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
from tests.benchmarks.drain import drain_rate
from tests.benchmarks.rows import Row, Spec, at_least, median
from tests.benchmarks.sample import make_acta
from tests.benchmarks.stage import Stage
from tests.harness.running import dsn_of

__all__ = ["SIZES", "SPECS", "measure"]

_ACTA = 60_000
_CHRONICA = 2_000
_REPETITIONS = 3

_WITHOUT = {
    ("offset", "dedupe"): "itself without offset row and dedupe",
    ("offset",): "itself without its offset row",
    ("dedupe",): "itself without dedupe (digests, look-ups, index)",
}
_SPECS = {
    parts: Spec("recorder, exactly once", "acta/s", against, at_least(0.7))
    for parts, against in _WITHOUT.items()
}

SIZES = f"{_ACTA:,} acta in {_CHRONICA:,} chronica, median of {_REPETITIONS}"
SPECS = tuple(_SPECS.values())


def measure(stage: Stage) -> Iterator[Row]:
    """Record the same acta each way in turn, and yield a row for each part left out."""
    acta = make_acta(stage.seed, stage.count(_ACTA), _CHRONICA)
    rates: dict[tuple[str, ...], list[float]] = {}
    for number in range(1, _REPETITIONS + 1):
        stage.say(f"exactly once: repetition {number} of {_REPETITIONS}")
        for without in ((), *_SPECS):
            with stage.log() as settings:
                if "dedupe" in without:
                    with psycopg.connect(dsn_of(settings), autocommit=True) as conn:
                        conn.execute("DROP INDEX chronica_g1.acta_dedupe")
                rate = drain_rate(stage, settings, acta, without=without)
                rates.setdefault(without, []).append(rate)
    for without, spec in _SPECS.items():
        yield spec.measured(median(rates[()]), median(rates[without]))
