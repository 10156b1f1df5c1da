"""Where the benchmarks run: one Kafka and one Postgres, and processes that end with them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from tests.harness.processes import chronica_environment
from tests.harness.running import fresh_database, new_prefix

from chronica.infra.embedded import DataDir, EmbeddedKafka, EmbeddedPostgres
from chronica.infra.settings import Settings
from chronica.log import ensure_topic
from chronica.projections import migrate

__all__ = [
    "ROOT",
    "NotToBeHadError",
    "Process",
    "Stage",
    "open_stage",
    "recorder_command",
]

ROOT = Path(__file__).parents[2]


class NotToBeHadError(Exception):
    """A peer can't be run on this machine; the sentence says why. No fault of a benchmark."""


@dataclass(frozen=True)
class Stage:
    """What every benchmark is given.

    Attributes:
        kafka: bootstrap servers.
        postgres: connection string of the server.
        directory: for logs and state; gone at the end.
        seed: of all data.
        quick: a tenth of everything, to try the benchmarks themselves; no figures to be quoted.
        say: tells the user what is done now.
    """

    kafka: str
    postgres: str
    directory: Path
    seed: int
    quick: bool
    say: Callable[[str], None]

    def count(self, full: int) -> int:
        """Return how many of something there are in this run."""
        return max(full // 10, 1) if self.quick else full

    def checkpoint(self) -> None:
        """Have Postgres write out what is dirty, so that no measurement pays for another's."""
        with psycopg.connect(self.postgres, autocommit=True) as conn:
            conn.execute("CHECKPOINT")

    @contextmanager
    def database(self) -> Iterator[str]:
        """Give an empty database; it is dropped after the block."""
        with fresh_database(self.postgres) as dsn:
            yield dsn

    @contextmanager
    def log(self) -> Iterator[Settings]:
        """Give a log of its own: an empty topic, and a database at the newest schema."""
        with self.database() as dsn:
            settings = Settings(
                kafka_bootstrap_servers=self.kafka,
                postgres_dsn=dsn,
                topic_prefix=new_prefix("bench"),
                port=0,
            )
            migrate(dsn)
            client, topic = settings.kafka_client(), settings.acta_topic
            asyncio.run(ensure_topic(client, topic, settings.partitions))
            yield settings

    @contextmanager
    def process(
        self,
        name: str,
        command: Sequence[str],
        *,
        settings: Settings | None = None,
        environment: dict[str, str] | None = None,
    ) -> Iterator[Process]:
        """Run a program until the block ends; it is ended then, killed if it must be."""
        process = Process(name, command, self.directory, settings, environment or {})
        try:
            yield process
        finally:
            process.stop()


class Process:
    """One program that runs, with its output in a file."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        directory: Path,
        settings: Settings | None,
        environment: dict[str, str],
    ) -> None:
        self.name = name
        self.log_path = directory / f"{name}-{time.monotonic_ns()}.log"
        base = dict(os.environ) if settings is None else chronica_environment(settings)
        with self.log_path.open("wb") as log:
            self._popen = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**base, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is the bench's, which ends it in order
            )

    def output(self) -> str:
        """Return all it has written so far."""
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._popen.send_signal(number)

    def check(self) -> None:
        """Raise if it has ended, with its last words."""
        if self._popen.poll() is not None:
            raise self._failure(f"{self.name} ended with {self._popen.returncode}")

    def until(
        self, condition: Callable[[], bool], *, within_s: float, poll_s: float = 0.02
    ) -> float:
        """Wait for a condition while it lives; return the time when it held (monotonic seconds)."""
        deadline = time.monotonic() + within_s
        while not condition():
            self.check()
            if time.monotonic() > deadline:
                raise self._failure(f"{self.name} was not done within {within_s:.0f} s")
            time.sleep(poll_s)
        return time.monotonic()

    def _failure(self, what: str) -> RuntimeError:
        error = RuntimeError(f"{what}.")
        error.add_note(self.output()[-3000:])
        return error

    def stop(self) -> None:
        """End it: asked first, killed after ten seconds."""
        if self._popen.poll() is None:
            self._popen.send_signal(signal.SIGCONT)  # it may be frozen
            self._popen.terminate()
            try:
                self._popen.wait(10)
            except subprocess.TimeoutExpired:
                self._popen.kill()
                self._popen.wait()


@contextmanager
def open_stage(seed: int, *, quick: bool, say: Callable[[str], None]) -> Iterator[Stage]:
    """Start both servers in a directory of their own; stop and delete all after the block."""
    data_dir = DataDir(Path(tempfile.mkdtemp(prefix="chronica-bench-")))
    with data_dir:
        kafka, postgres = EmbeddedKafka(data_dir.kafka), EmbeddedPostgres(data_dir.postgres)

        async def start() -> None:
            await asyncio.gather(kafka.start(), postgres.start())

        async def stop() -> None:
            await asyncio.gather(kafka.stop(), postgres.stop())

        try:
            say("starting Kafka and Postgres")
            asyncio.run(start())
            directory = data_dir.path / "bench"
            directory.mkdir()
            yield Stage(kafka.bootstrap_servers, postgres.dsn, directory, seed, quick, say)
        finally:
            say("stopping all")
            asyncio.run(stop())
            data_dir.remove()


def recorder_command() -> list[str]:
    """Return the command of a recorder."""
    return [str(Path(sys.executable).with_name("chronica")), "recorder"]
