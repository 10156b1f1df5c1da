"""The log store keeps the contract on real Kafka and Postgres."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from tests.harness.running import fresh_database, new_prefix, recorded

from chronica.acta.conformance import (
    ChronicariusConformance,
    DecidingStoreConformance,
    IdempotentStoreConformance,
    StoreConformance,
)
from chronica.infra.embedded import EmbeddedKafka, EmbeddedPostgres
from chronica.infra.settings import Settings
from chronica.store import LogStore, connect


@pytest.fixture(scope="module")
def running_log(kafka: EmbeddedKafka, postgres: EmbeddedPostgres) -> Iterator[Settings]:
    with fresh_database(postgres.dsn) as dsn:
        settings = Settings(
            kafka_bootstrap_servers=kafka.bootstrap_servers,
            postgres_dsn=dsn,
            topic_prefix=new_prefix("conformance"),
        )
        with recorded(settings):
            yield settings


class TestLogStore(
    StoreConformance,
    IdempotentStoreConformance,
    DecidingStoreConformance,
    ChronicariusConformance,
):
    @pytest.fixture(autouse=True)
    def _use(self, running_log: Settings) -> None:
        self.settings = running_log

    @asynccontextmanager
    async def open_store(self) -> AsyncIterator[LogStore]:
        async with connect(settings=self.settings) as store:
            yield store
