"""The ingress topics: their settings, made at the first start, checked at every one (rule 3.1).

Whatever differs is refused with one sentence: a compacted topic, a retention or a foreign partition
count would lose or reorder what was acknowledged, long after anyone remembers the setting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from chronica.log._consumers import stop_consumer
from chronica.log._errors import LogRefusedError, LogUnavailableError
from chronica.log._metadata import fetch_topic

__all__ = ["MESSAGE_BYTES_MAX", "PARTITIONS_MAX", "TopicFacts", "ensure_topic", "inspect_topic"]

MESSAGE_BYTES_MAX: Final = 24 * 1024 * 1024
"""``max.message.bytes`` of the ingress topics."""

PARTITIONS_MAX: Final = 1024
"""Most partitions of a topic: a chronicum's number is its offset times this, plus its partition."""

_SETTINGS: Final[Mapping[str, str]] = {
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "cleanup.policy": "delete",
    "message.timestamp.type": "LogAppendTime",
    "unclean.leader.election.enable": "false",
    "max.message.bytes": str(MESSAGE_BYTES_MAX),
}
_REPLICAS_WANTED = 3
_CREATED_WITHIN_S = 15.0


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """What a topic is.

    Attributes:
        name: full name, with the prefix.
        topic_id: Kafka's own id of it, 32 hex digits: the identity of the log. A topic that was
            deleted and made again has another.
        partitions: how many it has.
    """

    name: str
    topic_id: str
    partitions: int


async def ensure_topic(client: Mapping[str, Any], name: str, partitions: int) -> TopicFacts:
    """Make the topic if it is missing, check it, and return what it is.

    Args:
        client: keyword arguments of every aiokafka client.
        name: full name of the topic.
        partitions: how many partitions it gets if it has to be made.

    Raises:
        LogRefusedError: a setting, the replication or a first offset is not as it must be.
        LogUnavailableError: Kafka can't be reached.
    """
    async with _Admin(client) as admin:
        facts = await fetch_topic(admin, name)
        if facts is None:
            await _create(admin, name, partitions)
            facts = await _created(admin, name)
        topic = TopicFacts(name, *facts)
        if topic.partitions > PARTITIONS_MAX:
            raise LogRefusedError(
                f"The topic {name} has {topic.partitions} partitions, over {PARTITIONS_MAX}: the "
                "numbers of chronica have no room for more. Make it anew with fewer."
            )
        await _check_settings(admin, topic)
    await _check_first_offsets(client, topic)
    return topic


async def inspect_topic(client: Mapping[str, Any], name: str) -> TopicFacts | None:
    """Return what the topic is, or None if there is none; creates and checks nothing.

    Raises:
        LogUnavailableError: Kafka can't be reached.
    """
    async with _Admin(client) as admin:
        facts = await fetch_topic(admin, name)
    return None if facts is None else TopicFacts(name, *facts)


class _Admin:
    """An admin client whose failures say what could not be reached."""

    def __init__(self, client: Mapping[str, Any]) -> None:
        self._client = client

    async def __aenter__(self) -> AIOKafkaAdminClient:
        self._admin = AIOKafkaAdminClient(**self._client, request_timeout_ms=10_000)
        try:
            await self._admin.start()
        except (KafkaError, OSError) as error:
            await self._admin.close()
            raise self._unavailable(error) from error
        return self._admin

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await self._admin.close()
        if isinstance(error, (KafkaError, OSError, TimeoutError)):
            raise self._unavailable(error) from error

    def _unavailable(self, error: BaseException) -> LogUnavailableError:
        return LogUnavailableError(
            f"Kafka at {self._client['bootstrap_servers']} does not answer "
            f"({type(error).__name__}: {error}): start it, or mend the address."
        )


async def _create(admin: AIOKafkaAdminClient, name: str, partitions: int) -> None:
    brokers = len((await admin.describe_cluster())["brokers"])
    replicas = min(brokers, _REPLICAS_WANTED)
    settings = dict(_SETTINGS)
    if replicas == _REPLICAS_WANTED:
        settings["min.insync.replicas"] = "2"
    response = await admin.create_topics(
        [NewTopic(name, partitions, replicas, topic_configs=settings)]
    )
    for topic, code, *message in response.topic_errors:
        error = for_code(code)
        if code and error.retriable:
            raise LogUnavailableError(f"Kafka can't create {topic} now ({error.__name__}).")
        if code and not issubclass(error, TopicAlreadyExistsError):
            words = message[0] if message and message[0] else error.__name__
            raise LogRefusedError(f"Kafka would not create the topic {topic}: {words}.")


async def _created(admin: AIOKafkaAdminClient, name: str) -> tuple[str, int]:
    """Wait until the new topic is known; metadata trails creation by some milliseconds."""
    deadline = asyncio.get_running_loop().time() + _CREATED_WITHIN_S
    while True:
        facts = await fetch_topic(admin, name)
        if facts is not None:
            return facts
        if asyncio.get_running_loop().time() > deadline:
            raise LogRefusedError(f"Kafka created the topic {name} but does not show it.")
        await asyncio.sleep(0.05)


async def _check_settings(admin: AIOKafkaAdminClient, topic: TopicFacts) -> None:
    actual = await _configs(admin, ConfigResource(ConfigResourceType.TOPIC, topic.name))
    wanted = dict(_SETTINGS)
    cluster = await admin.describe_cluster()
    if len(cluster["brokers"]) >= _REPLICAS_WANTED:
        described = (await admin.describe_topics([topic.name]))[0]["partitions"]
        fewest = min(len(partition["replicas"]) for partition in described)
        if fewest < _REPLICAS_WANTED:
            raise LogRefusedError(
                f"The topic {topic.name} has replication {fewest}; with three brokers or more it "
                f"needs {_REPLICAS_WANTED}: reassign its partitions."
            )
        wanted["min.insync.replicas"] = "2"
    for setting, value in wanted.items():
        if actual.get(setting) != value:
            raise LogRefusedError(
                f"The topic {topic.name} has {setting}={actual.get(setting)}, it needs {value}: "
                f"set it with kafka-configs --alter --topic {topic.name} "
                f"--add-config {setting}={value}. Nothing was started."
            )
    broker = str(cluster["brokers"][0]["node_id"])
    configs = await _configs(admin, ConfigResource(ConfigResourceType.BROKER, broker))
    if configs.get("auto.create.topics.enable") != "false":
        raise LogRefusedError(
            "The brokers have auto.create.topics.enable=true: set it to false, else a mistyped or "
            "recreated topic comes up with settings that lose records. Nothing was started."
        )


async def _configs(admin: AIOKafkaAdminClient, resource: ConfigResource) -> dict[str, str]:
    (response,) = await admin.describe_configs([resource])
    configs: dict[str, str] = {}
    for code, message, _type, _name, entries in response.resources:
        if code and for_code(code).retriable:
            raise LogUnavailableError(
                f"Kafka does not show the settings of {resource.name} now "
                f"({for_code(code).__name__})."
            )
        if code:
            raise LogRefusedError(
                f"Kafka does not show the settings of {resource.name} "
                f"({message or for_code(code).__name__}): grant DescribeConfigs."
            )
        configs |= {entry[0]: entry[1] for entry in entries}
    return configs


async def _check_first_offsets(client: Mapping[str, Any], topic: TopicFacts) -> None:
    consumer = AIOKafkaConsumer(**client, request_timeout_ms=10_000)
    partitions = [TopicPartition(topic.name, n) for n in range(topic.partitions)]
    try:
        await consumer.start()
        offsets = await consumer.beginning_offsets(partitions)
    except (KafkaError, OSError) as error:
        raise LogUnavailableError(
            f"Kafka does not say where {topic.name} begins ({type(error).__name__}: {error})."
        ) from error
    finally:
        await stop_consumer(consumer)
    for partition, offset in offsets.items():
        if offset != 0:
            raise LogRefusedError(
                f"Partition {partition.partition} of {topic.name} begins at offset {offset}, not 0:"
                " records were deleted, and a log that lost its beginning can't be replayed. "
                "Restore the topic, or start a new log under another CHRONICA_TOPIC_PREFIX."
            )
