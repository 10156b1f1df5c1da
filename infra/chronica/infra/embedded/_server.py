"""The life of one embedded server: started under a guard, watched until ready, stopped, killed."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self, TypeVar

from . import _guard
from ._account import Account
from ._errors import NotRunningError, ServerDiedError, StartTimeoutError
from ._files import (
    DirectoryLock,
    check_free_space,
    check_platform,
    prepare_directory,
    unusable,
)

__all__ = ["Launch", "Server", "tail"]

_T = TypeVar("_T")
_POLL_S = 0.05
_GUARD_START_TIMEOUT_S = 20.0
_LEFTOVER_TIMEOUT_S = 30.0
_LOG_MAX_BYTES = 10 << 20


@dataclass(frozen=True, kw_only=True)
class Launch:
    """How to run one server: its command line, surroundings, and the steps that end it."""

    command: list[str]
    cwd: Path
    env: dict[str, str]
    account: Account | None
    stops: list[tuple[signal.Signals, float]]


class Server:
    """One server in one directory; usable from any event loop, by one task at a time.

    Starting, stopping and killing may be repeated; ports and data stay. ``async with`` starts it
    and stops it.
    """

    name: ClassVar[str]
    start_timeout_s: ClassVar[float]
    stop_timeout_s: ClassVar[float]

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        self._process: subprocess.Popen[bytes] | None = None
        self._pid: int | None = None
        self._lock = DirectoryLock(self.directory)
        self._log_start_bytes = 0

    @property
    def log_path(self) -> Path:
        """Where the server writes what it has to say."""
        return self.directory / "log" / f"{self.name.lower()}.log"

    @property
    def output_path(self) -> Path:
        """Where its standard output and error go."""
        return self.log_path

    @property
    def running(self) -> bool:
        """Whether the server's process is alive."""
        return self._process is not None and self._pid is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Process id of the real server, not of its guard.

        Raises:
            NotRunningError: it hasn't been started.
        """
        pid = self._pid
        if pid is None or not self.running:
            raise NotRunningError(f"{self.name} is not running: start it first.")
        return pid

    async def start(self) -> None:
        """Start the server and return when it serves; does nothing when it is running.

        Raises:
            StartError: one of its kinds; the message is for the user.
        """
        if self.running:
            return
        self._forget()
        try:
            await _in_thread(self._launch)
            await self._until_ready()
        except BaseException:
            await asyncio.shield(self.kill())
            raise

    async def stop(self) -> None:
        """Ask the server to end and wait for it, ``stop_timeout_s`` at most; then kill it."""
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.terminate()  # the guard; it knows the steps
            try:
                await asyncio.to_thread(process.wait, self.stop_timeout_s)
            except subprocess.TimeoutExpired:
                await self.kill()
        self._forget()

    async def kill(self) -> None:
        """End the server with SIGKILL, as a crash would, and wait until it is gone."""
        process, pid = self._process, self._pid
        if process is None:
            return
        if process.poll() is None:
            # The guard has not reaped it while the guard lives, so the pid is still the server's.
            os.kill(pid if pid is not None else process.pid, signal.SIGKILL)
            try:
                await asyncio.to_thread(process.wait, self.stop_timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                await asyncio.to_thread(process.wait)
        self._forget()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    def _prepare(self, cancelled: threading.Event) -> Launch:
        """Make all that the server needs on disk and say how to run it; may block."""
        raise NotImplementedError

    def _ready(self) -> bool:
        """Tell whether it serves now; may block for a second."""
        raise NotImplementedError

    def _last_words(self) -> str:
        """The end of what it has logged since it was started."""
        return tail(self.log_path, self._log_start_bytes)

    def _launch(self, cancelled: threading.Event) -> None:
        check_platform()
        prepare_directory(self.directory)
        check_free_space(self.directory)
        self._lock.acquire(wait_s=_LEFTOVER_TIMEOUT_S, cancelled=cancelled)
        try:
            launch = self._prepare(cancelled)
            if cancelled.is_set():
                return
            self._spawn(launch)
        except OSError as error:  # a disk that fills up, a file of another user, no memory
            raise unusable(Path(error.filename or self.directory), error) from error
        finally:
            # From here on the guard and the server hold it; see DirectoryLock.
            self._lock.release()

    def _spawn(self, launch: Launch) -> None:
        self.log_path.parent.mkdir(mode=0o700, exist_ok=True)
        _rotate(self.output_path)
        self._log_start_bytes = _size(self.log_path)
        spec = {
            "command": launch.command,
            "cwd": str(launch.cwd),
            "env": launch.env,
            "user": [launch.account.uid, launch.account.gid] if launch.account else None,
            "parent": os.getpid(),
            "lock": self._lock.fileno,
            "stops": [(int(number), wait_s) for number, wait_s in launch.stops],
        }
        with self.output_path.open("ab") as output:
            process = subprocess.Popen(  # noqa: S603  (our own program)
                [sys.executable, "-I", "-S", _guard.__file__, json.dumps(spec)],
                cwd="/",
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                pass_fds=(self._lock.fileno,),
                start_new_session=True,  # so that Ctrl-C in a terminal doesn't reach the server
            )
        self._process = process
        self._pid = _read_pid(process)
        if self._pid is None:
            process.kill()
            process.wait()
            self._forget()
            raise ServerDiedError(
                f"{self.name} could not be run; the end of {self.output_path} says why:\n"
                f"{tail(self.output_path, 0)}"
            )

    async def _until_ready(self) -> None:
        deadline = time.monotonic() + self.start_timeout_s
        while not await asyncio.to_thread(self._ready):
            if not self.running:
                raise ServerDiedError(
                    f"{self.name} ended while it was starting; the end of {self.log_path} says "
                    f"why:\n{self._last_words()}"
                )
            if time.monotonic() > deadline:
                raise StartTimeoutError(
                    f"{self.name} was not ready after {self.start_timeout_s:.0f} s; the end of "
                    f"{self.log_path} may say why:\n{self._last_words()}"
                )
            await asyncio.sleep(_POLL_S)

    def _forget(self) -> None:
        if self._process is not None:
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
        self._process = None
        self._pid = None


async def _in_thread(work: Callable[[threading.Event], _T]) -> _T:
    """Run blocking work; when cancelled, tell it and wait for it, so that nothing is left."""
    cancelled = threading.Event()
    task = asyncio.ensure_future(asyncio.to_thread(work, cancelled))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        cancelled.set()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # seen: the cancellation is what the caller gets
        raise


def _read_pid(process: subprocess.Popen[bytes]) -> int | None:
    assert process.stdout is not None
    if not select.select([process.stdout], [], [], _GUARD_START_TIMEOUT_S)[0]:
        return None
    line = process.stdout.readline().strip()
    return int(line) if line.isdigit() else None


def tail(path: Path, start_bytes: int, lines_max: int = 8) -> str:
    """Return the last lines of a log after a position, without the frames of Java's traces."""
    try:
        with path.open("rb") as file:
            file.seek(max(start_bytes, _size(path) - 65536))
            text = file.read().decode(errors="replace")
    except OSError:
        return "  (no log)"
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("\tat ")]
    return "\n".join(f"  {line}" for line in lines[-lines_max:]) or "  (nothing logged)"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _rotate(path: Path) -> None:
    if _size(path) > _LOG_MAX_BYTES:
        path.replace(path.with_name(f"{path.name}.1"))
