"""Recorders as processes of their own, to be stopped, killed and frozen with signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.harness.running import dsn_of

from chronica.infra.settings import Settings

__all__ = ["RecorderProcess", "chronica_environment", "recorder_processes", "run_chronica"]

_CHRONICA = Path(sys.executable).with_name("chronica")


def chronica_environment(settings: Settings) -> dict[str, str]:
    """Return an environment in which every command finds this log and nothing else."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CHRONICA_")}
    assert settings.kafka_bootstrap_servers is not None
    return {
        **kept,
        "CHRONICA_KAFKA_BOOTSTRAP_SERVERS": settings.kafka_bootstrap_servers,
        "CHRONICA_POSTGRES_DSN": dsn_of(settings),
        "CHRONICA_TOPIC_PREFIX": settings.topic_prefix,
        "CHRONICA_PARTITIONS": str(settings.partitions),
    }


def run_chronica(
    settings: Settings, *arguments: str, timeout_s: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run a command of ours to its end."""
    return subprocess.run(
        [_CHRONICA, *arguments],
        env=chronica_environment(settings),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


class RecorderProcess:
    """A ``chronica recorder``."""

    def __init__(self, settings: Settings, log_path: Path) -> None:
        self.log_path = log_path
        with log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [_CHRONICA, "recorder"],
                env=chronica_environment(settings),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def pid(self) -> int:
        """Its process id, for as long as it is not reaped."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def send(self, number: signal.Signals) -> None:
        """Send it a signal: SIGSTOP freezes it, SIGCONT lets it go on."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._process.kill()
        self._process.wait()

    def stop(self, within_s: float = 10.0) -> int:
        """End it with SIGTERM and return its exit code; one that is frozen goes on first."""
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        try:
            return self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def last_words(self) -> str:
        """Return the end of what it has logged."""
        return self.log_path.read_text(encoding="utf-8", errors="replace")[-3000:]


class RecorderProcesses:
    """The recorders of one log; whoever still lives at the end must end well."""

    def __init__(self, settings: Settings, directory: Path) -> None:
        self._settings = settings
        self._directory = directory
        self._started = 0
        self.live: list[RecorderProcess] = []

    def start(self) -> RecorderProcess:
        """Start one more."""
        self._started += 1
        path = self._directory / f"recorder-{self._started}.log"
        process = RecorderProcess(self._settings, path)
        self.live.append(process)
        return process

    def kill(self, process: RecorderProcess) -> None:
        """Kill one; it is not missed."""
        process.kill()
        self.live.remove(process)

    def stop(self, process: RecorderProcess) -> None:
        """Stop one; it must end well."""
        self.live.remove(process)
        code = process.stop()
        assert code == 0, f"a stopped recorder ended with {code}: {process.last_words()}"

    def check_alive(self) -> None:
        """Assert that none has ended by itself: nothing needs a restart."""
        for process in self.live:
            assert process.alive, f"a recorder ended by itself: {process.last_words()}"


@contextmanager
def recorder_processes(settings: Settings, directory: Path) -> Iterator[RecorderProcesses]:
    """Hold recorders; end those that are left after the block."""
    directory.mkdir(parents=True, exist_ok=True)
    processes = RecorderProcesses(settings, directory)
    try:
        yield processes
        processes.check_alive()
        for process in list(processes.live):
            processes.stop(process)
    finally:
        for process in processes.live:
            process.kill()
