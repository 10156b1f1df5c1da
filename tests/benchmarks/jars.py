"""The jars of Kafka Connect and of Debezium's JDBC sink, pinned beside this module.

``python -m tests.benchmarks.jars`` pins them anew. Like Kafka's own, only jars that match are run.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.benchmarks.stage import NotToBeHadError

from chronica.infra.embedded import JarChecksumError, JarsUnavailableError, ensure_jars
from chronica.infra.embedded._jars import bring_jars, read_lock
from chronica.infra.embedded._lock import maven, resolve, write_lock

__all__ = ["connect_jars", "sink_jars"]

_CONNECT_LOCK = Path(__file__).with_name("connect.lock")
_SINK_LOCK = Path(__file__).with_name("debezium.lock")
_CONNECT = "org.apache.kafka:connect-runtime:4.3.1"
_SINK = "io.debezium:debezium-connector-jdbc:3.5.0.Final"  # 3.6.0 needs a jar that isn't served
_SINK_LEAVES_OUT = {
    # The worker has them, and the sink must not bring others, as in Debezium's own archive.
    "org.apache.kafka",
    "org.slf4j",
    "org.lz4",
    "org.xerial.snappy",
    "com.github.luben",
    "com.fasterxml.jackson.core",
    # Drivers of other databases.
    "com.mysql",
    "org.mariadb.jdbc",
    "com.microsoft.sqlserver",
    "com.oracle.database.jdbc",
}
_HEADER = """\
# Jars that only the benchmarks run: coordinates, SHA-256, size in bytes.
# Made by `make lock`; only jars that match are ever run.
"""


def connect_jars() -> list[Path]:
    """Return the class path of a Connect worker: Kafka's jars and Connect's own.

    Raises:
        NotToBeHadError: they can't be fetched or are not those that were pinned.
    """
    return [*ensure_jars(), *_pinned(_CONNECT_LOCK)]


def sink_jars() -> list[Path]:
    """Return the jars of the sink's plugin.

    Raises:
        NotToBeHadError: they can't be fetched or are not those that were pinned.
    """
    return _pinned(_SINK_LOCK)


def _pinned(lock: Path) -> list[Path]:
    try:
        return bring_jars(read_lock(lock))
    except (JarsUnavailableError, JarChecksumError) as error:
        raise NotToBeHadError(
            f"the jars of {lock.name} can't be fetched, or are not the pinned ones "
            f"({type(error).__name__})."
        ) from error


def _pin() -> int:
    have = {jar.coordinates.rpartition(":")[0] for jar in read_lock()}
    with maven() as context:
        worker = [
            artifact
            for artifact in resolve(context, _CONNECT)
            if f"{artifact.groupId}:{artifact.artifactId}" not in have
        ]
        sink = [
            artifact
            for artifact in resolve(context, _SINK)
            if artifact.groupId not in _SINK_LEAVES_OUT
        ]
        return write_lock(_CONNECT_LOCK, _HEADER, worker) + write_lock(_SINK_LOCK, _HEADER, sink)


if __name__ == "__main__":
    print(f"{_pin()} jars of the benchmarks pinned.", file=sys.stderr)
