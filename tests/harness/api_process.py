"""The API as a process of its own: its memory is its own, and it can be measured."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from tests.harness.processes import chronica_environment

from chronica.api import ApiServer
from chronica.infra.settings import Settings

__all__ = ["ApiProcess", "api_process"]

_ROOT = Path(__file__).parents[2]


class ApiProcess:
    """An API that serves at ``url``."""

    def __init__(self, url: str, pid: int) -> None:
        self.url = url
        self.pid = pid

    def memory_bytes(self, name: str) -> int:
        """Return its memory: VmRSS as it is now, VmHWM the most there ever was."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
        raise AssertionError(name)


@contextmanager
def api_process(settings: Settings) -> Iterator[ApiProcess]:
    """Serve until the block ends; it must end well."""
    environment = {**chronica_environment(settings), "CHRONICA_PORT": "0"}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.harness.api_process"],
        cwd=_ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        url = process.stdout.readline().strip()
        deadline = time.monotonic() + 30
        while httpx.get(f"{url}/ready").status_code != 200:
            assert time.monotonic() < deadline, "the API is not ready"
            time.sleep(0.05)
        yield ApiProcess(url, process.pid)
        process.stdin.close()
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


async def _serve() -> None:
    server = ApiServer(Settings())
    await server.start()
    print(server.url, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.stop()


if __name__ == "__main__":
    asyncio.run(_serve())
