"""Kafka's own lag tools see how far the recorder is."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import GroupCoordinatorNotAvailableError
from tests.harness.running import recorded

from chronica.acta import ActorKind, Actum, ActumKind
from chronica.infra.settings import Settings
from chronica.log import LogWriter


async def test_the_recorders_offsets_are_shown_as_a_consumer_group(settings: Settings) -> None:
    actum = Actum(
        chronicum_id="c",
        kind=ActumKind.MESSAGE,
        actor_kind=ActorKind.HUMAN,
        actor="ardian",
        content="hello",
    )
    with recorded(settings):
        client = settings.kafka_client()
        async with LogWriter(client, topic=settings.acta_topic, tenant="local") as writer:
            positions = [await writer.append("ardian", actum) for _ in range(3)]
        entry = positions[-1].entries[0]
        place = TopicPartition(settings.acta_topic, entry.partition)
        admin = AIOKafkaAdminClient(**client)
        await admin.start()
        try:
            async with asyncio.timeout(20):
                committed = None
                while committed is None or committed.offset != entry.offset + 1:
                    await asyncio.sleep(0.2)
                    # Kafka makes its offsets topic when the first group asks for it.
                    with suppress(GroupCoordinatorNotAvailableError):
                        group = f"{settings.topic_prefix}.recorder"
                        offsets = await admin.list_consumer_group_offsets(group)
                        committed = offsets.get(place)
        finally:
            await admin.close()
