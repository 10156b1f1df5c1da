"""Windows on real Postgres: the right acta, by the right index, as fresh as promised, in time."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, cast

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from tests.harness.rows import fill
from tests.harness.running import dsn_of, recorded, until

from chronica.acta import (
    ActorKind,
    Actum,
    ActumKind,
    Chronicarius,
    DecisionPendingError,
    ReadTimeoutError,
    StoreUnavailableError,
    WindowQuery,
    random_id,
    select,
    validate_query,
)
from chronica.acta.conformance import HOSTILE_TEXTS
from chronica.infra.settings import Settings
from chronica.log import LogWriter
from chronica.projections import WINDOW_SESSION, _window_sql, read_window, session
from chronica.store import LogStore, connect

TEXTS = ["", "a", "ab" * 10, *HOSTILE_TEXTS.values()]


def actum(chronicum: str, content: str, **fields: Any) -> Actum:
    defaults = {"kind": ActumKind.MESSAGE, "actor_kind": ActorKind.HUMAN, "actor": "ardian"}
    return Actum(chronicum_id=chronicum, content=content, **{**defaults, **fields})


def random_actum(choices: random.Random, chronicum: str) -> Actum:
    kind = choices.choice(list(ActumKind))
    content = choices.choice(TEXTS)
    if not content and kind in (ActumKind.MESSAGE, ActumKind.THOUGHT):
        content = "something"
    return actum(
        chronicum,
        content,
        kind=kind,
        actor_kind=choices.choice(list(ActorKind)),
        call_id=choices.choice([None, "c1", "c2", "c\x00"]),
    )


def random_query(choices: random.Random) -> WindowQuery:
    def some(kinds: Any) -> Any:
        return choices.choice([None, [], choices.choices(list(kinds), k=choices.randint(1, 3))])

    query = WindowQuery(
        kinds=some(ActumKind),
        actor_kinds=some(ActorKind),
        last_n=choices.choice([0, -1, 1, 2, 5, 20, 1000]),
        max_chars=choices.choice([None, 0, 1, 20, 100, 10_000]),
        whole_calls=choices.random() < 0.4,
    )
    try:
        validate_query(query)
    except ValueError:
        return random_query(choices)
    return query


@asynccontextmanager
async def log_store(settings: Settings, **options: Any) -> AsyncIterator[LogStore]:
    async with connect(settings=settings, **options) as store:
        yield store


# With pages of a few acta nearly every window has a rest that is streamed, and with walks of a few
# its lower end is found only then.
@pytest.mark.parametrize(
    ("page_bytes", "walk_rows"),
    [(_window_sql.PAGE_BYTES, _window_sql.WALK_ROWS), (1500, 10**6), (10**6, 4), (1500, 4)],
)
async def test_windows_by_sql_are_those_of_the_rule(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, page_bytes: int, walk_rows: int
) -> None:
    monkeypatch.setattr(_window_sql, "PAGE_BYTES", page_bytes)
    monkeypatch.setattr(_window_sql, "WALK_ROWS", walk_rows)
    seed = random.getrandbits(32)
    print(f"seed={seed}")
    choices = random.Random(seed)
    with recorded(settings):
        async with log_store(settings) as store:
            c = Chronicarius(store)
            for length in (1, 7, 60):
                chronicum = random_id()
                sent = (random_actum(choices, chronicum) for _ in range(length))
                stored = [await c.record_actum("ardian", each) for each in sent]
                for _ in range(150):
                    query = random_query(choices)
                    window = await store.window("ardian", chronicum, query)
                    assert window == select(stored, query), query


async def test_a_rare_kind_among_fifty_thousand_is_found_by_its_index(settings: Settings) -> None:
    chronicum, count = random_id(), 50_000
    with recorded(settings) as recorder:
        async with LogWriter(
            settings.kafka_client(), topic=settings.acta_topic, tenant="local"
        ) as writer:
            rare = actum(chronicum, "rare", kind=ActumKind.THOUGHT, actor_kind=ActorKind.SYSTEM)
            many = [(actum(chronicum, f"{n}"), None) for n in range(count - 2)]
            answers = await writer.append_many("ardian", [(rare, None), *many, (rare, None)])
        assert not [answer for answer in answers if isinstance(answer, Exception)]
        until(lambda: count in recorder.recorder.partitions.values(), "all is recorded")
    with psycopg.connect(dsn_of(settings), autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE chronica_g1.acta")
    queries = {
        "rare": WindowQuery(kinds=[ActumKind.THOUGHT], last_n=20),
        "rare, no limit": WindowQuery(kinds=[ActumKind.THOUGHT]),
        "rare and common": WindowQuery(kinds=[ActumKind.THOUGHT, ActumKind.MESSAGE], last_n=20),
        "one actor": WindowQuery(actor_kinds=[ActorKind.SYSTEM], last_n=20),
        "newest": WindowQuery(last_n=20),
        "newest that fit": WindowQuery(last_n=20, max_chars=50),
        "all that fit": WindowQuery(max_chars=50),
        "all that fit, one actor": WindowQuery(actor_kinds=[ActorKind.HUMAN], max_chars=50),
        "all that fit, rare and common": WindowQuery(
            kinds=[ActumKind.THOUGHT, ActumKind.MESSAGE], max_chars=50
        ),
    }
    for name, query in queries.items():
        window, plan = await explained(settings, chronicum, query)
        assert not [step for step in steps_of(plan) if "Sort" in step["Node Type"]], name
        scans = [step for step in steps_of(plan) if step.get("Relation Name") == "acta"]
        indexes = {scan.get("Index Name") for scan in scans}
        assert scans, name
        assert None not in indexes, f"{name} reads without an index: {scans}"
        assert ("acta_window" in indexes) == bool(query.kinds or query.actor_kinds), name
        read = sum(map(rows_read, scans))
        assert read <= 150, f"{name} looks at {read} rows: {scans}"
        assert 0 < len(window) <= 20, name


async def test_a_long_window_begins_at_once(settings: Settings) -> None:
    chronicum = random_id()
    with recorded(settings):
        fill(settings, chronicum, count=20_000)
        for query in (WindowQuery(), WindowQuery(kinds=[ActumKind.MESSAGE, ActumKind.THOUGHT])):
            window, plan = await explained(settings, chronicum, query)
            assert not [step for step in steps_of(plan) if "Sort" in step["Node Type"]]
            scans = [step for step in steps_of(plan) if step.get("Relation Name") == "acta"]
            # Each is walked once to see how much a page holds, and once more for the page.
            assert len(window) < sum(map(rows_read, scans)) < 2 * len(window) + 20
            assert 500 < len(window) < 5000


class Explaining:
    """A connection that has each statement explained as it is run."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._connection = connection
        self.plan: dict[str, Any] = {}

    async def execute(self, statement: str, parameters: dict[str, Any]) -> Any:
        explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}".encode()
        row = await (await self._connection.execute(explain, parameters)).fetchone()
        assert row is not None
        self.plan = row[0][0]["Plan"]
        return await self._connection.execute(statement.encode(), parameters)


async def explained(
    settings: Settings, chronicum: str, query: WindowQuery
) -> tuple[list[str], dict[str, Any]]:
    """Return a window's contents, and its plan."""
    async with await psycopg.AsyncConnection.connect(
        dsn_of(settings), **session("test", WINDOW_SESSION)
    ) as connection:
        explaining = Explaining(connection)
        window = await read_window(
            cast("psycopg.AsyncConnection[Any]", explaining),
            generation=1,
            partition=0,  # only the watermark is looked up by it
            tenant="local",
            owner="ardian",
            chronicum=chronicum,
            query=query,
        )
    return [each.content for each in window.acta], explaining.plan


def steps_of(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from steps_of(inner)


def rows_read(scan: dict[str, Any]) -> float:
    """Return how many rows a step of a plan has looked at."""
    passed = scan["Actual Rows"] + scan.get("Rows Removed by Filter", 0)
    return float(passed * scan["Actual Loops"])


async def test_a_process_reads_what_it_wrote(settings: Settings) -> None:
    chronicum = random_id()
    with recorded(settings):
        async with Chronicarius.connect(settings=settings) as c:
            for n in range(1, 101):
                stored = await c.record_actum("ardian", actum(chronicum, f"{n}"))
                assert (await c.get_acta("ardian", chronicum))[-1] == stored
                assert (await c.get_chronicum("ardian", chronicum)).last_seq == n


async def test_a_linearizable_read_sees_what_any_process_was_promised(settings: Settings) -> None:
    chronicum = random_id()
    with recorded(settings):
        async with (
            log_store(settings) as other,
            LogWriter(settings.kafka_client(), topic=settings.acta_topic, tenant="local") as writer,
        ):
            for n in range(1, 101):
                # Only appended: its decision is waited for by nobody.
                await writer.append("ardian", actum(chronicum, f"{n}"))
                window = await other._reader.window(
                    "local", "ardian", chronicum, WindowQuery(), consistency="linearizable"
                )
                assert [each.content for each in window.acta] == [f"{m}" for m in range(1, n + 1)]


async def test_the_first_read_of_a_process_sees_what_others_were_promised(
    settings: Settings,
) -> None:
    chronicum = random_id()
    with recorded(settings):
        async with LogWriter(
            settings.kafka_client(), topic=settings.acta_topic, tenant="local"
        ) as writer:
            for n in range(1, 6):
                await writer.append("ardian", actum(chronicum, f"{n}"))
                async with Chronicarius.connect(settings=settings) as fresh:
                    assert len(await fresh.get_acta("ardian", chronicum)) == n


async def test_a_read_times_out_while_no_recorder_records(settings: Settings) -> None:
    chronicum = random_id()
    with recorded(settings):
        async with Chronicarius.connect(settings=settings) as c:
            await c.record_actum("ardian", actum(chronicum, "recorded"))
    async with log_store(settings, decision_wait_s=0.5, read_timeout_s=1.0) as store:
        c = Chronicarius(store)
        assert len(await c.get_acta("ardian", chronicum)) == 1
        with pytest.raises(DecisionPendingError) as pending:
            await c.record_actum("ardian", actum(chronicum, "pending"), idempotency_key="k")
        assert pending.value.retry_key == "k"
        began = time.monotonic()
        with pytest.raises(ReadTimeoutError):
            await c.get_acta("ardian", chronicum)
        assert time.monotonic() - began < 3.0
        # Whoever takes it as it is, gets it as it is.
        stale = await store._reader.window(
            "local", "ardian", chronicum, WindowQuery(), consistency="eventual"
        )
        assert [each.content for each in stale.acta] == ["recorded"]
        with recorded(settings):
            retried = await c.record_actum(
                "ardian", actum(chronicum, "retried"), idempotency_key="k"
            )
            assert (retried.content, retried.seq) == ("pending", 2)


async def test_a_read_says_in_time_that_postgres_is_away(settings: Settings) -> None:
    chronicum = random_id()
    with recorded(settings):
        async with Chronicarius.connect(settings=settings) as c:
            await c.record_actum("ardian", actum(chronicum, "recorded"))
    async with log_store(settings, decision_wait_s=1.0, read_timeout_s=1.0) as store:
        c = Chronicarius(store)
        assert len(await c.get_acta("ardian", chronicum)) == 1
        with postgres_away(settings):
            for read in (c.get_acta, c.get_chronicum):
                began = time.monotonic()
                with pytest.raises(StoreUnavailableError):
                    await read("ardian", chronicum)
                assert time.monotonic() - began < 3.0
            with pytest.raises(DecisionPendingError):
                await c.record_actum("ardian", actum(chronicum, "pending"))
        with recorded(settings):
            async with asyncio.timeout(20):
                while True:
                    try:
                        acta = await c.get_acta("ardian", chronicum)
                        break
                    except StoreUnavailableError:
                        continue
            assert [each.content for each in acta] == ["recorded", "pending"]


@contextmanager
def postgres_away(settings: Settings) -> Iterator[None]:
    """Close the database of one test to everyone: to its clients Postgres is as good as gone."""
    dsn = dsn_of(settings)
    name = sql.Identifier(str(conninfo_to_dict(dsn)["dbname"]))
    with psycopg.connect(make_conninfo(dsn, dbname="postgres"), autocommit=True) as connection:
        connection.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(name))
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
            [conninfo_to_dict(dsn)["dbname"]],
        )
        yield
        connection.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS true").format(name))
