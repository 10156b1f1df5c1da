"""Poison between good acta of one chronicum: dead letters, complete, and the good ones go on."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from tests.harness.raw import Headers, RawLog, record_value
from tests.harness.running import RunningRecorder, dsn_of, fresh_database, new_prefix, recorded

from chronica.acta import ActorKind, Actum, ActumKind, Chronicarius, InternalError, random_id
from chronica.infra.embedded import EmbeddedKafka, EmbeddedPostgres
from chronica.infra.settings import Settings
from chronica.projections import migrate

ODD_HEADERS: Headers = [("none", None), ("odd", b"\xff\x00"), ("", b""), ("odd", b"again")]
HUGE = b'{"a":"' + b"x" * (20 * 1024 * 1024) + b'"}'


@dataclass(frozen=True)
class Poison:
    """A record that can't be decided; a callable makes what depends on the chronicum."""

    reason: str
    value: bytes | None = None
    changes: dict[str, Any] | None = None
    key: bytes | None = b""
    elsewhere: bool = False

    def value_for(self, chronicum: str) -> bytes | None:
        if self.changes is None:
            return self.value
        return record_value(chronicum, "poison", **self.changes)


POISONS = {
    "a byte that is no UTF-8": Poison("not_utf8", b"\xff"),
    "no value": Poison("null_value", None),
    "no bytes": Poison("not_json", b""),
    "an empty object": Poison("unknown_version", b"{}"),
    "a list": Poison("not_json", b"[]"),
    "half an object": Poison("not_json", b'{"type":'),
    "an unknown kind": Poison("unknown_kind", changes={"kind": "shout"}),
    "an unknown actor kind": Poison("unknown_kind", changes={"actor_kind": "ghost"}),
    "an unknown type": Poison("unknown_type", changes={"type": "retraction"}),
    "version 99": Poison("unknown_version", changes={"version": 99}),
    "a version in words": Poison("unknown_version", changes={"version": "1"}),
    "a list as owner": Poison("invalid_field", changes={"owner": ["ardian"]}),
    "a number as content": Poison("invalid_field", changes={"payload": {"content": 7}}),
    "a text as payload": Poison("invalid_field", changes={"payload": "hello"}),
    "a fraction as expected_seq": Poison("invalid_field", changes={"expected_seq": 1.5}),
    "an empty key": Poison("invalid_field", changes={"key": ""}),
    "an actor over the limit": Poison("invalid_field", changes={"actor": "a" * 1025}),
    "an encrypted payload": Poison("encrypted", changes={"enc": "key-1"}),
    "a record's key of another chronicum": Poison(
        "wrong_key", changes={}, key=b'["local","another"]'
    ),
    "a record's key that is spaced": Poison("wrong_key", changes={}, key=b'["local", "a"]'),
    "a record without a key": Poison("wrong_key", changes={}, key=None),
    "another partition": Poison("wrong_partition", changes={}, elsewhere=True),
    "20 MB": Poison("value_too_large", HUGE),
    "a nest of a hundred thousand": Poison("too_deep", b"[" * 100_000),
    "a nest in metadata": Poison(
        "too_deep",
        record_value("?", "poison", payload={"content": "x", "metadata": "@"}).replace(
            b'"@"', b'{"a":' * 300 + b"1" + b"}" * 300
        ),
    ),
}


@pytest.fixture(scope="module")
def log(
    kafka: EmbeddedKafka, postgres: EmbeddedPostgres
) -> Iterator[tuple[Settings, RunningRecorder]]:
    """One running log for the poison of this module: it must outlive all of it."""
    with fresh_database(postgres.dsn) as dsn:
        settings = Settings(
            kafka_bootstrap_servers=kafka.bootstrap_servers,
            postgres_dsn=dsn,
            topic_prefix=new_prefix("poison"),
        )
        with recorded(settings) as recorder:
            yield settings, recorder


@pytest.fixture
def running(log: tuple[Settings, RunningRecorder]) -> Settings:
    return log[0]


@pytest.fixture
async def raw(running: Settings) -> AsyncIterator[RawLog]:
    async with RawLog.open(running) as raw:
        yield raw


async def window(settings: Settings, chronicum: str, **options: Any) -> list[str]:
    async with Chronicarius.connect(settings=settings, **options) as c:
        acta = await c.get_acta("ardian", chronicum)
    assert [actum.seq for actum in acta] == list(range(1, len(acta) + 1))
    return [actum.content for actum in acta]


async def dead_letter(settings: Settings, partition: int, offset: int) -> dict[str, Any]:
    async with await psycopg.AsyncConnection.connect(dsn_of(settings)) as connection:
        cursor = await connection.execute(
            "SELECT timestamp_ms, reason, detail, key, value, headers "
            'FROM chronica_g1.dead_letters WHERE topic = %s AND partition = %s AND "offset" = %s',
            ["acta", partition, offset],
        )
        row = await cursor.fetchone()
    assert row is not None, f"offset {offset} of partition {partition} is no dead letter"
    names = ("timestamp_ms", "reason", "detail", "key", "value", "headers")
    return dict(zip(names, row, strict=True))


async def until_recorded(settings: Settings, raw: RawLog, partition: int) -> None:
    """Wait until the lag of a partition is 0."""
    end = await raw.end(partition)
    async with await psycopg.AsyncConnection.connect(
        dsn_of(settings), autocommit=True
    ) as connection:
        for _ in range(1000):
            cursor = await connection.execute(
                "SELECT next_offset FROM chronica_g1.claims WHERE partition = %s",
                [partition],
            )
            row = await cursor.fetchone()
            if row is not None and row[0] == end:
                return
            await asyncio.sleep(0.01)
    raise AssertionError(f"partition {partition} stands at {row}, its log ends at {end}")


@pytest.mark.parametrize("name", POISONS)
async def test_poison_is_a_dead_letter_and_its_neighbours_are_visible_within_a_second(
    name: str, running: Settings, raw: RawLog
) -> None:
    poison, chronicum = POISONS[name], random_id()
    home = raw.home(chronicum)
    partition = (home + 1) % running.partitions if poison.elsewhere else home
    value = poison.value_for(chronicum)

    await raw.good(chronicum, "before")
    offset = await raw.put(
        chronicum, value, key=poison.key, partition=partition, headers=ODD_HEADERS
    )
    await raw.good(chronicum, "after")
    assert await window(running, chronicum, read_timeout_s=1.0) == ["before", "after"]

    await until_recorded(running, raw, partition)
    letter = await dead_letter(running, partition, offset)
    assert letter["reason"] == poison.reason
    assert letter["detail"].endswith(".")
    assert letter["value"] == value
    key = json.dumps(["local", chronicum], separators=(",", ":")).encode()
    assert letter["key"] == (key if poison.key == b"" else poison.key)
    headers = [(n, None if v is None else b64decode(v)) for n, v in json.loads(letter["headers"])]
    assert headers == list(ODD_HEADERS)
    assert letter["timestamp_ms"] > 0


async def test_all_poison_at_once_is_recorded_in_one_go(settings: Settings) -> None:
    chronicum = random_id()
    with recorded(settings):
        pass  # makes the topic
    offsets: dict[str, tuple[int, int]] = {}
    async with RawLog.open(settings) as raw:
        home = raw.home(chronicum)
        for name, poison in POISONS.items():
            await raw.good(chronicum, f"before {name}")
            partition = (home + 1) % settings.partitions if poison.elsewhere else home
            offset = await raw.put(
                chronicum, poison.value_for(chronicum), key=poison.key, partition=partition
            )
            offsets[name] = partition, offset
        with recorded(settings):
            await until_recorded(settings, raw, home)
            await until_recorded(settings, raw, (home + 1) % settings.partitions)
            assert await window(settings, chronicum) == [f"before {name}" for name in POISONS]
    for name, (partition, offset) in offsets.items():
        letter = await dead_letter(settings, partition, offset)
        assert letter["reason"] == POISONS[name].reason, name


@pytest.mark.parametrize("codec", ["gzip", "lz4", "snappy", "zstd"])
async def test_a_batch_that_another_producer_compressed_is_recorded(
    codec: str, running: Settings, raw: RawLog
) -> None:
    chronicum = random_id()
    await raw.good(chronicum, "before")
    async with RawLog.open(running, compression_type=codec) as foreign:
        await foreign.good(chronicum, "compressed")
    await raw.good(chronicum, "after")
    assert await window(running, chronicum) == ["before", "compressed", "after"]


class OddName(str):
    """A header's name that is no UTF-8; Kafka takes any bytes there, and librdkafka sends them."""

    __slots__ = ()

    def encode(self, *_: object) -> bytes:
        return b"\xff\xfe"


async def test_a_header_whose_name_is_no_utf8_blocks_nothing(settings: Settings) -> None:
    chronicum = random_id()
    with recorded(settings):
        async with RawLog.open(settings) as raw:
            await raw.good(chronicum, "before")
            await raw.put_odd_header(chronicum, OddName("xx"))
            await raw.good(chronicum, "after")
            contents = await window(settings, chronicum, read_timeout_s=3.0)
    assert contents == ["before", "odd", "after"]


async def test_a_batch_that_cannot_be_decompressed_is_a_dead_letter_whole(
    running: Settings, raw: RawLog
) -> None:
    chronicum = random_id()
    await raw.good(chronicum, "before")
    offset = await raw.put_with_trailing_bytes(chronicum, "x" * 1000)
    await raw.good(chronicum, "after")
    assert await window(running, chronicum) == ["before", "after"]
    dead = await dead_letter(running, raw.home(chronicum), offset)
    assert bytes(dead["value"]).endswith(b"behind")
    assert "chronica-undecodable-batch" in str(dead["headers"])


async def test_only_a_committed_transaction_of_someone_else_is_recorded(
    running: Settings, raw: RawLog
) -> None:
    chronicum = random_id()
    home = raw.home(chronicum)
    async with RawLog.open(running, transactional_id=random_id()) as foreign:
        await raw.good(chronicum, "1")
        async with foreign.producer.transaction():
            await foreign.good(chronicum, "2, committed")
        await raw.good(chronicum, "3")
        await foreign.producer.begin_transaction()
        await foreign.good(chronicum, "aborted")
        await foreign.producer.abort_transaction()
        await until_recorded(running, raw, home)  # the position passes the mark after the last one
        assert await window(running, chronicum) == ["1", "2, committed", "3"]
        await raw.good(chronicum, "4")
        assert await window(running, chronicum) == ["1", "2, committed", "3", "4"]


async def test_an_open_transaction_holds_its_partition_and_nothing_after_its_end(
    running: Settings, raw: RawLog
) -> None:
    chronicum = random_id()
    home = raw.home(chronicum)
    neighbour = next(i for i in map(str, range(1000)) if raw.home(i + chronicum) != home)
    async with RawLog.open(running, transactional_id=random_id()) as foreign:
        await raw.good(chronicum, "before")
        await foreign.producer.begin_transaction()
        await foreign.good(chronicum, "aborted")
        held = await raw.good(chronicum, "after")
        await raw.good(neighbour + chronicum, "elsewhere")
        assert await window(running, neighbour + chronicum) == ["elsewhere"]
        async with await psycopg.AsyncConnection.connect(dsn_of(running)) as connection:
            cursor = await connection.execute(
                "SELECT next_offset FROM chronica_g1.claims WHERE partition = %s", [home]
            )
            row = await cursor.fetchone()
        assert row is not None
        assert row[0] <= held, "what stands behind an open transaction was recorded"
        await foreign.producer.abort_transaction()
        assert await window(running, chronicum) == ["before", "after"]
    await until_recorded(running, raw, home)


async def test_what_postgres_refuses_fails_alone_and_its_submitter_is_told(
    settings: Settings,
) -> None:
    chronicum = random_id()
    migrate(dsn_of(settings))
    with psycopg.connect(dsn_of(settings)) as connection:
        connection.execute(
            "ALTER TABLE chronica_g1.acta ADD CONSTRAINT refuses CHECK (content <> 'refused')"
        )

    def actum(content: str) -> Actum:
        return Actum(
            chronicum_id=chronicum,
            kind=ActumKind.MESSAGE,
            actor_kind=ActorKind.HUMAN,
            actor="ardian",
            content=content,
        )

    contents = [f"{n}" for n in range(20)]
    contents[7] = "refused"
    with recorded(settings):
        async with Chronicarius.connect(settings=settings) as c:
            answers = await asyncio.gather(
                *(c.record_actum("ardian", actum(content)) for content in contents),
                return_exceptions=True,
            )
            refused = answers.pop(contents.index("refused"))
            assert isinstance(refused, InternalError)
            acta = await c.get_acta("ardian", chronicum)
            assert answers == acta
            with pytest.raises(InternalError):
                await c.record_actum("ardian", actum("refused"), idempotency_key="again")
            stored = await c.record_actum("ardian", actum("good"), idempotency_key="again")
            assert stored.seq == 20
    with psycopg.connect(dsn_of(settings)) as connection:
        verdicts = connection.execute("SELECT reason, detail FROM chronica.verdicts").fetchall()
        dead = connection.execute("SELECT reason FROM chronica_g1.dead_letters").fetchall()
    assert [reason for reason, _detail in verdicts] == ["internal_error"] * 2
    assert all("23514" in detail for _reason, detail in verdicts)
    assert dead == [("internal_error",)] * 2
