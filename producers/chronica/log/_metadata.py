"""Kafka's own id of a topic (KIP-516), which aiokafka's metadata requests (v5) do not carry.

It is the identity of the log: a topic that was deleted and made again under its name has another.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import UnknownTopicOrPartitionError, for_code
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Int64,
    Schema,
    TaggedFields,
)

__all__ = ["fetch_topic"]

_UUID = [("id_high", Int64), ("id_low", Int64)]


class _MetadataResponseV12(Response):  # type: ignore[misc]
    API_KEY = 3
    API_VERSION = 12
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32),
                ("host", CompactString("utf-8")),
                ("port", Int32),
                ("rack", CompactString("utf-8")),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_id", CompactString("utf-8")),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("topic", CompactString("utf-8")),
                *_UUID,
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("isr", CompactArray(Int32)),
                        ("offline_replicas", CompactArray(Int32)),
                        ("tags", TaggedFields),
                    ),
                ),
                ("authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _MetadataRequestV12(RequestStruct):  # type: ignore[misc]
    API_KEY = 3
    API_VERSION = 12
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = _MetadataResponseV12
    SCHEMA = Schema(
        (
            "topics",
            CompactArray(
                *_UUID,
                ("name", CompactString("utf-8")),
                ("tags", TaggedFields),
            ),
        ),
        ("allow_auto_topic_creation", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class _TopicRequest(Request[_MetadataRequestV12]):  # type: ignore[misc]
    API_KEY = 3

    def __init__(self, name: str) -> None:
        self._name = name

    def build(self, request_struct_class: type[_MetadataRequestV12]) -> _MetadataRequestV12:
        return request_struct_class([(0, 0, self._name, {})], False, False, {})  # noqa: FBT003


async def fetch_topic(admin: AIOKafkaAdminClient, name: str) -> tuple[str, int] | None:
    """Return a topic's id (32 hex digits) and partition count, or None if there is none.

    Raises:
        aiokafka.errors.KafkaError: the broker answers with another error.
    """
    node = admin._client.get_random_node()  # noqa: SLF001  (the admin has no request of its own)
    response: Any = await admin._client.send(node, _TopicRequest(name))  # noqa: SLF001
    (topic,) = response.topics
    code, _name, high, low, _internal, partitions = topic[:6]
    if code:
        error = for_code(code)
        if issubclass(error, UnknownTopicOrPartitionError):
            return None
        raise error(f"topic {name}")
    unsigned = ((high & (2**64 - 1)) << 64) | (low & (2**64 - 1))
    return UUID(int=unsigned).hex, len(partitions)
