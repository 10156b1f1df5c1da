"""Opening the log store: ``Chronicarius.connect()`` finds it by the entry point chronica.stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from chronica.acta import StoreUnavailableError
from chronica.infra.embedded import read_running
from chronica.infra.settings import Settings
from chronica.log import LogUnavailableError, LogWriter, inspect_topic
from chronica.store._reader import Reader
from chronica.store._store import LogStore
from chronica.store._submitter import Submitter

__all__ = ["connect", "resolve"]


def resolve(settings: Settings | None = None) -> Settings:
    """Return settings with both addresses: as given, else those of the stack in the data directory.

    Raises:
        StoreUnavailableError: an address is missing and no stack runs there.
    """
    settings = settings or Settings()
    if settings.kafka_bootstrap_servers and settings.postgres_dsn:
        return settings
    running = read_running(settings.data_dir)
    dsn = settings.postgres_dsn
    postgres = None if dsn is None else dsn.get_secret_value()
    # Never a part of one stack and a part of another.
    if running is None or not running.is_at(settings.kafka_bootstrap_servers, postgres):
        raise StoreUnavailableError(
            f"No such Chronica runs in {settings.data_dir}: start one with `chronica up`, or set "
            "both "
            "CHRONICA_KAFKA_BOOTSTRAP_SERVERS and CHRONICA_POSTGRES_DSN."
        )
    return Settings(
        **settings.model_dump(
            exclude={"kafka_bootstrap_servers", "postgres_dsn"}, exclude_unset=True
        ),
        kafka_bootstrap_servers=settings.kafka_bootstrap_servers or running.kafka,
        postgres_dsn=settings.postgres_dsn or running.postgres,
    )


@asynccontextmanager
async def connect(
    *,
    tenant: str = "local",
    settings: Settings | None = None,
    decision_wait_s: float = 10.0,
    read_timeout_s: float = 5.0,
) -> AsyncIterator[LogStore]:
    """Open the log store of a tenant; closing it ends every connection.

    Args:
        tenant: whose chronica.
        settings: ``Settings()`` by default.
        decision_wait_s: how long a write waits for its decision.
        read_timeout_s: how long a read may take.

    Raises:
        StoreUnavailableError: Kafka or Postgres has no address, or Kafka does not answer.
    """
    settings = resolve(settings)
    client = settings.kafka_client()
    try:
        facts = await inspect_topic(client, settings.acta_topic)
    except LogUnavailableError as error:
        raise StoreUnavailableError(str(error)) from error
    if facts is None:
        raise StoreUnavailableError(
            f"The log has no topic {settings.acta_topic} yet: start a recorder, which makes it."
        )
    async with (
        LogWriter(client, topic=settings.acta_topic, tenant=tenant) as writer,
        Reader(settings, facts, timeout_s=read_timeout_s) as reader,
    ):
        submitter = Submitter(writer, reader, decision_wait_s=decision_wait_s)
        yield LogStore(tenant, submitter, reader)
