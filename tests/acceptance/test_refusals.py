"""A log or a database that is not what it must be is refused with a sentence; nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from tests.harness.processes import run_chronica
from tests.harness.raw import RawLog
from tests.harness.running import dsn_of, fresh_database, recorded, until

from chronica.acta import random_id
from chronica.infra.embedded import EmbeddedPostgres
from chronica.infra.settings import Settings
from chronica.log import PARTITIONS_MAX, LogRefusedError, _topics, ensure_topic, inspect_topic
from chronica.log import _topics as topics
from chronica.projections import SchemaRefusedError, migrate
from chronica.recorder import Recorder

RIGHT = {
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "cleanup.policy": "delete",
    "message.timestamp.type": "LogAppendTime",
    "unclean.leader.election.enable": "false",
    "max.message.bytes": str(24 << 20),
}
WRONG = {
    "retention.ms": "604800000",
    "retention.bytes": "1073741824",
    "cleanup.policy": "compact",
    "message.timestamp.type": "CreateTime",
    "unclean.leader.election.enable": "true",
    "max.message.bytes": "1048588",
}


@asynccontextmanager
async def admin_of(settings: Settings) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(**settings.kafka_client())
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


async def refusal(settings: Settings, kind: type[Exception]) -> str:
    """Return the sentence that a recorder refuses to record with."""
    recorder = Recorder(settings)
    with pytest.raises(kind) as refused:
        await asyncio.wait_for(recorder.run(), 30)
    sentence = str(refused.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


def claims(settings: Settings) -> list[tuple[Any, ...]]:
    """Return how far each partition is; a recorder that refuses must leave it so."""
    with psycopg.connect(dsn_of(settings)) as connection:
        return connection.execute(
            "SELECT partition, next_offset, last_offset, last_checksum "
            "FROM chronica_g1.claims ORDER BY partition"
        ).fetchall()


def change(settings: Settings, statement: str) -> None:
    with psycopg.connect(dsn_of(settings)) as connection:
        connection.execute(statement.encode())


@pytest.fixture
async def used(settings: Settings) -> tuple[Settings, int]:
    """A log with three recorded acta, whose recorder has stopped; and their partition."""
    chronicum = random_id()
    with recorded(settings):
        async with RawLog.open(settings) as raw:
            for n in range(3):
                await raw.good(chronicum, f"{n}")
            partition = raw.home(chronicum)
        until(lambda: claims(settings)[partition][1] == 3, "three acta are recorded")
    return settings, partition


async def delete_topic(settings: Settings) -> None:
    async with admin_of(settings) as admin:
        await admin.delete_topics([settings.acta_topic])
        for _ in range(500):
            if await inspect_topic(settings.kafka_client(), settings.acta_topic) is None:
                return
            await asyncio.sleep(0.02)
    raise AssertionError("the topic is still there")


async def test_a_recreated_topic_is_refused(used: tuple[Settings, int]) -> None:
    settings, _partition = used
    before = claims(settings)
    await delete_topic(settings)
    await ensure_topic(settings.kafka_client(), settings.acta_topic, settings.partitions)
    sentence = await refusal(settings, SchemaRefusedError)
    assert "was recreated" in sentence
    assert claims(settings) == before

    ended = await asyncio.to_thread(run_chronica, settings, "recorder")
    assert ended.returncode == 1
    assert "was recreated" in " ".join(ended.stderr.split())
    assert "Traceback" not in ended.stderr + ended.stdout


async def test_a_topic_that_is_recreated_under_a_live_recorder_is_refused(
    used: tuple[Settings, int],
) -> None:
    settings, _partition = used
    before = claims(settings)
    recorder = Recorder(settings)
    running = asyncio.create_task(recorder.run())
    while len(recorder.partitions) < settings.partitions or -1 in recorder.partitions.values():
        await asyncio.sleep(0.02)
    await delete_topic(settings)
    await ensure_topic(settings.kafka_client(), settings.acta_topic, settings.partitions)
    with pytest.raises(LogRefusedError, match=r"the log was truncated|was made again"):
        await asyncio.wait_for(running, 30)
    assert claims(settings) == before


async def test_a_topic_that_is_recreated_and_grown_as_long_under_a_live_recorder_is_refused(
    settings: Settings,
) -> None:
    await asyncio.to_thread(migrate, dsn_of(settings))
    recorder = Recorder(settings)
    running = asyncio.create_task(recorder.run())
    while len(recorder.partitions) < settings.partitions or -1 in recorder.partitions.values():
        await asyncio.sleep(0.02)
    # Nothing was recorded, so no offset and no record tells the new topic from the old one.
    await delete_topic(settings)
    await ensure_topic(settings.kafka_client(), settings.acta_topic, settings.partitions)
    with pytest.raises(LogRefusedError, match="was made again"):
        await asyncio.wait_for(running, 30)


async def test_a_log_that_lost_its_beginning_is_refused(used: tuple[Settings, int]) -> None:
    settings, partition = used
    before = claims(settings)
    async with admin_of(settings) as admin:
        place = TopicPartition(settings.acta_topic, partition)
        await admin.delete_records({place: RecordsToDelete(2)})
    sentence = await refusal(settings, LogRefusedError)
    assert f"Partition {partition}" in sentence
    assert "begins at offset 2, not 0" in sentence
    assert claims(settings) == before


async def test_a_log_that_lost_its_end_is_refused(used: tuple[Settings, int]) -> None:
    # A broker that came back with less can't be had from Kafka; a database that knows more can.
    settings, partition = used
    change(
        settings,
        f"UPDATE chronica_g1.claims SET next_offset = 5, last_offset = 4 "
        f"WHERE partition = {partition}",
    )
    before = claims(settings)
    sentence = await refusal(settings, LogRefusedError)
    assert "ends at offset 3, but 5 offsets of it are recorded" in sentence
    assert claims(settings) == before


@pytest.mark.parametrize(
    "difference", ["last_checksum = '\\x00'", "last_timestamp_ms = last_timestamp_ms + 1"]
)
async def test_a_log_that_holds_another_last_record_is_refused(
    used: tuple[Settings, int], difference: str
) -> None:
    settings, partition = used
    change(settings, f"UPDATE chronica_g1.claims SET {difference} WHERE partition = {partition}")
    before = claims(settings)
    sentence = await refusal(settings, LogRefusedError)
    assert "holds another record at offset 2" in sentence
    assert claims(settings) == before


async def test_a_changed_partition_count_is_refused(used: tuple[Settings, int]) -> None:
    settings, _partition = used
    async with admin_of(settings) as admin:
        more = settings.partitions + 1
        await admin.create_partitions({settings.acta_topic: NewPartitions(more)})
    sentence = await refusal(settings, SchemaRefusedError)
    assert f"has {settings.partitions + 1} partitions, but {settings.partitions}" in sentence


@pytest.mark.parametrize("setting", WRONG)
async def test_a_wrong_topic_setting_is_refused(settings: Settings, setting: str) -> None:
    await asyncio.to_thread(migrate, dsn_of(settings))
    wrong = WRONG[setting]
    async with admin_of(settings) as admin:
        configs = {**RIGHT, setting: wrong}
        await admin.create_topics(
            [NewTopic(settings.acta_topic, settings.partitions, 1, topic_configs=configs)]
        )
    sentence = await refusal(settings, LogRefusedError)
    assert f"has {setting}={wrong}, it needs {RIGHT[setting]}" in sentence
    assert f"--add-config {setting}={RIGHT[setting]}" in sentence


async def test_a_setting_that_was_changed_later_is_refused(used: tuple[Settings, int]) -> None:
    settings, _partition = used
    async with admin_of(settings) as admin:
        resource = ConfigResource(
            ConfigResourceType.TOPIC,
            settings.acta_topic,
            {**RIGHT, "retention.ms": "1000000000"},
        )
        await admin.alter_configs([resource])
    assert "retention.ms=1000000000" in await refusal(settings, LogRefusedError)


async def test_brokers_that_create_topics_by_themselves_are_refused(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The setting can't be changed while a broker runs, so its answer is changed.
    configs = topics._configs

    async def with_auto_create(admin: AIOKafkaAdminClient, of: ConfigResource) -> dict[str, str]:
        said = await configs(admin, of)
        if of.resource_type is not ConfigResourceType.BROKER:
            return said
        assert said["auto.create.topics.enable"] == "false"
        return {**said, "auto.create.topics.enable": "true"}

    monkeypatch.setattr(topics, "_configs", with_auto_create)
    sentence = await refusal(settings, LogRefusedError)
    assert "auto.create.topics.enable=true: set it to false" in sentence


async def test_the_database_of_another_log_is_refused(used: tuple[Settings, int]) -> None:
    settings, _partition = used
    before = claims(settings)
    other = settings.model_copy(update={"topic_prefix": f"{settings.topic_prefix}-other"})
    sentence = await refusal(other, SchemaRefusedError)
    assert "was made from another log" in sentence
    assert claims(settings) == before


async def test_a_database_of_a_newer_version_is_refused(used: tuple[Settings, int]) -> None:
    settings, _partition = used
    change(settings, "UPDATE chronica.migrations SET version_num = '9999'")
    sentence = await refusal(settings, SchemaRefusedError)
    assert "9999, which this version does not know" in sentence


async def test_an_unmigrated_database_is_refused(settings: Settings) -> None:
    assert "run `chronica migrate`" in await refusal(settings, SchemaRefusedError)

    ended = await asyncio.to_thread(run_chronica, settings, "recorder")
    assert ended.returncode == 1
    # A command is named as this one was run, so that it can be pasted.
    assert "bin/chronica migrate`" in " ".join(ended.stderr.split())
    assert "Traceback" not in ended.stderr + ended.stdout


async def test_a_new_database_for_a_log_records_all_of_it_again(
    used: tuple[Settings, int], postgres: EmbeddedPostgres
) -> None:
    settings, partition = used
    with fresh_database(postgres.dsn) as dsn:
        other = Settings(
            kafka_bootstrap_servers=settings.kafka_bootstrap_servers,
            postgres_dsn=dsn,
            topic_prefix=settings.topic_prefix,
        )
        with recorded(other):
            until(lambda: claims(other)[partition][1] == 3, "the log is recorded anew")
        assert claims(other) == claims(settings)


async def test_a_topic_of_too_many_partitions_is_refused(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fetched(*_: object) -> tuple[str, int]:
        return "0" * 32, PARTITIONS_MAX + 1

    monkeypatch.setattr(_topics, "fetch_topic", fetched)
    with pytest.raises(LogRefusedError, match="1025 partitions, over 1024"):
        await ensure_topic(settings.kafka_client(), settings.acta_topic, settings.partitions)
