"""Context windows over HTTP: the last 50 with two filters, in chronica of any length."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
from tests.benchmarks.clients import Client
from tests.benchmarks.rows import Row, Spec, at_most, percentile
from tests.benchmarks.sample import OWNER
from tests.benchmarks.stage import Stage, recorder_command
from tests.harness.api_process import api_process
from tests.harness.running import dsn_of, until

from chronica.infra.settings import Settings
from chronica.log import partition_key, partition_of
from chronica.projections import chronicum_digest, chronicum_number

__all__ = ["SIZES", "SPECS", "measure"]

_SIZES = (1_000, 10_000, 100_000, 1_000_000)
_REQUESTS = 500
_WARM_UP = 50
_LAST_N = 50
_RARE = 60
"""So many acta of the rare pair each chronicum has, evenly spread over its whole length."""
_PAIRS = {"common": ("message", "agent"), "rare": ("thought", "system")}
_LIMIT_MS = 10.0
_FIRST_OFFSET = 10**9

_LIMITS = {
    (pair, size): Spec(
        f"window, last 50, {pair} kinds, {size:,} acta, p99",
        "ms",
        f"the limit, {_LIMIT_MS:g} ms",
        at_most(1),
    )
    for pair in _PAIRS
    for size in _SIZES
}
_FLAT = {
    pair: Spec(
        f"window, last 50, {pair} kinds, {_SIZES[-1]:,} acta, p50",
        "ms",
        f"{_SIZES[0]:,} acta",
        at_most(1.5),
    )
    for pair in _PAIRS
}

SIZES = f"{_REQUESTS:,} requests of each window, in turns"
SPECS = (*_LIMITS.values(), *_FLAT.values())


def measure(stage: Stage) -> Iterator[Row]:
    """Fill the tables, ask in turn for each window, and yield the rows."""
    sizes = [stage.count(size) if size == _SIZES[-1] else size for size in _SIZES]
    with stage.log() as settings, stage.process("recorder", recorder_command(), settings=settings):
        stage.say("windows: filling chronica of up to a million acta")
        _fill(settings, sizes)
        stage.say("windows: reading")
        with api_process(settings) as api:
            took_ms = _read(api.url, sizes, stage.count(_REQUESTS))
    for (pair, size), spec in _LIMITS.items():
        yield spec.measured(percentile(took_ms[pair, _SIZES.index(size)], 99), _LIMIT_MS)
    for pair, spec in _FLAT.items():
        yield spec.measured(
            percentile(took_ms[pair, len(_SIZES) - 1], 50), percentile(took_ms[pair, 0], 50)
        )


def _read(url: str, sizes: list[int], count: int) -> dict[tuple[str, int], list[float]]:
    """Ask for each window so many times, in turns; return how long it took, in milliseconds."""
    client = Client(url, {"Chronica-Owner": OWNER})
    took_ms: dict[tuple[str, int], list[float]] = {}
    for number in range(_WARM_UP + count):
        for pair, (kind, actor_kind) in _PAIRS.items():
            for which in range(len(sizes)):
                path = (
                    f"/v1/chronica/session-{which}/acta"
                    f"?last_n={_LAST_N}&kind={kind}&actor_kind={actor_kind}"
                )
                took_s = client.seconds("GET", path, None, 200)
                if number >= _WARM_UP:
                    took_ms.setdefault((pair, which), []).append(took_s * 1000)
                elif number == 0:
                    _check(client, path)
    client.close()
    return took_ms


def _check(client: Client, path: str) -> None:
    """A window that isn't full would be quick for the wrong reason."""
    _status, body = client.send("GET", path)
    found = body.count(b'"seq"')
    if found != _LAST_N:
        raise RuntimeError(f"{path} holds {found} acta, not {_LAST_N}.")


def _fill(settings: Settings, sizes: list[int]) -> None:
    """Write chronica of these sizes straight into the tables, as if they had been recorded.

    The claims are there once a recorder has entered; the rows stand at offsets that the log never
    reaches in this run, so nothing collides.
    """
    with psycopg.connect(dsn_of(settings), autocommit=True) as conn:

        def claimed() -> bool:
            row = conn.execute("SELECT count(*) FROM chronica_g1.claims").fetchone()
            return row is not None and row[0] == settings.partitions

        until(claimed, "the recorder has pinned the log")
        for which, size in enumerate(sizes):
            _write(conn, settings, which, size)
        conn.execute("VACUUM ANALYZE chronica_g1.acta, chronica_g1.chronica")


def _write(conn: psycopg.Connection[tuple[int]], settings: Settings, which: int, size: int) -> None:
    chronicum = f"session-{which}"
    partition = partition_of(partition_key(settings.tenant, chronicum), settings.partitions)
    first = _FIRST_OFFSET * (which + 1)
    number = chronicum_number(partition, first)
    conn.execute(
        "INSERT INTO chronica_g1.chronica (number, digest, created_at, last_activity_at, "
        "last_seq, tenant, id, owner) VALUES (%s, %s, now(), now(), %s, %s, %s, %s)",
        [
            number,
            chronicum_digest(settings.tenant, chronicum),
            size,
            settings.tenant,
            chronicum,
            OWNER,
        ],
    )
    conn.execute(
        'INSERT INTO chronica_g1.acta (chronicum, seq, "offset", at, dedupe, partition, chars, '
        "kind, actor_kind, id, actor, key, content) "
        "SELECT %(number)s, seq, %(first)s + seq, now(), gen_random_uuid(), %(partition)s, 260, "
        "CASE WHEN seq %% %(rare)s = 0 THEN 'thought' "
        "WHEN seq %% 3 = 0 THEN 'tool_request' ELSE 'message' END::chronica.actum_kind, "
        "CASE WHEN seq %% %(rare)s = 0 THEN 'system' "
        "WHEN seq %% 2 = 0 THEN 'human' ELSE 'agent' END::chronica.actor_kind, "
        "'id-' || seq, 'concierge', 'turn-' || seq, rpad('turn ' || seq || ' ', 260, 'word ') "
        "FROM generate_series(1, %(size)s) AS seq",
        {
            "number": number,
            "first": first,
            "partition": partition,
            "rare": size // _RARE,
            "size": size,
        },
    )
