"""``chronica api`` as a process with workers, to be told things by signals."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
from tests.harness.processes import chronica_environment
from tests.harness.running import until

from chronica.infra.settings import Settings

__all__ = ["ApiProcess", "api_process"]

_CHRONICA = Path(sys.executable).with_name("chronica")
_URL = re.compile(r"api serves url=(\S+)")


class ApiProcess:
    """A ``chronica api`` and its workers."""

    def __init__(self, settings: Settings, workers: int, log_path: Path, port: int) -> None:
        self.log_path = log_path
        with log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [_CHRONICA, "api", "--port", str(port), "--workers", str(workers)],
                env={**chronica_environment(settings), **settings.environment()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        until(lambda: bool(_URL.search(self.log)), "the API says where it serves")
        found = _URL.search(self.log)
        assert found is not None
        self.url = found[1]

    @property
    def log(self) -> str:
        """What it has logged."""
        return self.log_path.read_text("utf-8")

    @property
    def workers(self) -> list[int]:
        """The pids of its workers."""
        return [child.pid for child in psutil.Process(self.process.pid).children() if _works(child)]

    def until_ready(self, headers: dict[str, str] | None = None) -> None:
        """Wait until it answers that it is."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.log
            try:
                if httpx.get(f"{self.url}/ready", headers=headers).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.1)
        raise AssertionError(f"the API is not ready: {self.log}")

    def stop(self, number: int = signal.SIGTERM, within_s: float = 30.0) -> int:
        """Tell it to stop, and return its exit code."""
        self.process.send_signal(number)
        return self.process.wait(within_s)


def _works(child: psutil.Process) -> bool:
    """Tell a worker from what else multiprocessing starts, and from one that has just died."""
    try:
        return "spawn_main" in " ".join(child.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False


@contextmanager
def api_process(
    settings: Settings, workers: int, log_path: Path, *, port: int = 0
) -> Iterator[ApiProcess]:
    """Run one until the block ends; nothing of it is left then."""
    api = ApiProcess(settings, workers, log_path, port)
    try:
        yield api
    finally:
        if api.process.poll() is None:
            family = psutil.Process(api.process.pid).children(recursive=True)
            api.process.kill()
            api.process.wait()
            for child in family:
                if child.is_running():
                    os.kill(child.pid, signal.SIGKILL)
