"""Files and directories as servers need them: locks, atomic writes, and checks ahead of trouble."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from ._errors import DataDirError, DataDirInUseError, DiskFullError, PlatformError

if sys.platform != "win32":
    import fcntl
    import pwd

__all__ = [
    "FREE_SPACE_MIN_BYTES",
    "DirectoryLock",
    "check_free_space",
    "check_platform",
    "prepare_directory",
    "unusable",
    "write_atomically",
]

FREE_SPACE_MIN_BYTES = 1 << 30
"""Below this Kafka and Postgres would soon stop in the middle of a write, so nothing starts."""

_POLL_S = 0.05


def check_platform() -> None:
    """Refuse systems without file locks and signals as the stack needs them.

    Raises:
        PlatformError: this is Windows.
    """
    if sys.platform == "win32":
        raise PlatformError(
            "The embedded Kafka and Postgres run on Linux and macOS only: on Windows use WSL, or "
            "set CHRONICA_KAFKA_BOOTSTRAP_SERVERS and CHRONICA_POSTGRES_DSN to servers elsewhere."
        )


def check_free_space(directory: Path) -> None:
    """Refuse to start on a file system that is about to be full.

    Raises:
        DiskFullError: fewer than ``FREE_SPACE_MIN_BYTES`` are free.
    """
    free_bytes = shutil.disk_usage(directory).free
    if free_bytes < FREE_SPACE_MIN_BYTES:
        raise DiskFullError(
            f"Only {free_bytes >> 20} MiB are free where {directory} is, and at least "
            f"{FREE_SPACE_MIN_BYTES >> 20} MiB are needed: free some, or choose another data "
            "directory."
        )


def prepare_directory(directory: Path, mode: int = 0o700) -> None:
    """Make a directory of our own, or check that the one that is there is.

    Raises:
        DataDirError: it is no directory, belongs to someone else, or can't be written.
    """
    try:
        directory.mkdir(mode=mode, parents=True, exist_ok=True)
        owner_uid = directory.stat().st_uid
    except FileExistsError:
        raise DataDirError(
            f"{directory} is a file, not a directory: choose another data directory."
        ) from None
    except OSError as error:
        raise unusable(directory, error) from error
    if owner_uid != os.geteuid():
        raise DataDirError(
            f"{directory} belongs to user {_user(owner_uid)}, but this process runs as "
            f"{_user(os.geteuid())}: start it as {_user(owner_uid)}, or choose another data "
            "directory."
        )
    if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        raise DataDirError(
            f"{directory} can't be written by {_user(os.geteuid())}: change its permissions, or "
            "choose another data directory."
        )


def write_atomically(path: Path, text: str, mode: int = 0o600) -> None:
    """Write a file so that a reader, or a crash, sees the old text or the new one whole."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise unusable(path, error) from error


class DirectoryLock:
    """The right to use a directory, held as long as any process has ``fileno`` open.

    The lock belongs to the open file, not to this process: servers inherit it, so that it stays
    taken until the last of them has ended, whoever was killed before.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / "lock"
        self._descriptor: int | None = None

    @property
    def fileno(self) -> int:
        """The open file; passed on to servers."""
        if self._descriptor is None:
            raise RuntimeError("The lock is not held.")
        return self._descriptor

    def acquire(self, *, wait_s: float, cancelled: threading.Event | None = None) -> None:
        """Take the lock, waiting for one whose holder has died and is still being cleaned up.

        Args:
            wait_s: how long to wait for servers that a dead (or this) process left behind; a
                living holder is given one second at most.
            cancelled: ends the wait when it is set.

        Raises:
            DataDirInUseError: another living process holds it, or it didn't come free in time.
            DataDirError: the file can't be made.
        """
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise unusable(self.path, error) from error
        try:
            self._wait(descriptor, wait_s, cancelled or threading.Event())
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def release(self) -> None:
        """Give up this process's share of the lock; does nothing when it has none."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def is_held(self) -> bool:
        """Tell whether any process holds the lock now."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            return not _lock(descriptor, shared=True)
        finally:
            os.close(descriptor)

    def _wait(self, descriptor: int, wait_s: float, cancelled: threading.Event) -> None:
        started = time.monotonic()
        while not _lock(descriptor):
            waited_s = time.monotonic() - started
            holder = self._holder()
            # A reader of `is_held` has it for a moment too, so even a living holder gets a second.
            bound_s = min(1.0, wait_s) if _lives_elsewhere(holder) else wait_s
            if waited_s >= bound_s or cancelled.wait(_POLL_S):
                raise DataDirInUseError(
                    f"{self.path.parent} is in use by process {holder or 'unknown'}: stop that "
                    "one first, or choose another data directory."
                )

    def _holder(self) -> int | None:
        try:
            return int(self.path.read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None


def _lock(descriptor: int, *, shared: bool = False) -> bool:
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lives_elsewhere(pid: int | None) -> bool:
    if pid is None or pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def unusable(path: Path, error: OSError) -> DataDirError:
    """Say in one sentence why a path can't be used; a full disk has a kind of its own."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return DiskFullError(
            f"The disk is full where {path} is: free some space, or choose another data directory."
        )
    return DataDirError(
        f"{path} can't be used ({error.strerror}): choose another data directory, or change its "
        "permissions."
    )
