"""The data directory of one stack: its lock, and the note through which others find it."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from ._account import server_account
from ._files import (
    DirectoryLock,
    check_free_space,
    check_platform,
    prepare_directory,
    write_atomically,
)
from ._place import noted_place

__all__ = ["DataDir", "RunningStack", "read_running"]

_NOTE = "stack.json"


@dataclass(frozen=True, kw_only=True)
class RunningStack:
    """Where the parts of a running stack are.

    Attributes:
        pid: the process that runs it.
        api: URL of the HTTP API, None when it has none.
        kafka: bootstrap servers.
        postgres: connection string; a secret.
    """

    pid: int
    api: str | None
    kafka: str
    postgres: str

    def is_at(self, kafka: str | None, postgres: str | None) -> bool:
        """Say whether the addresses are this stack's; one that is None is not asked for."""
        return kafka in (None, self.kafka) and postgres in (None, self.postgres)


class DataDir:
    """A data directory, held by one process at a time. A context manager: ``open``, ``close``.

    Args:
        path: made if it isn't there, closed to other users; as root, the account that Postgres
            runs as may pass through it. The mode of a directory that holds things is left alone.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._lock = DirectoryLock(self.path)

    @property
    def kafka(self) -> Path:
        """The directory for EmbeddedKafka."""
        return self.path / "kafka"

    @property
    def postgres(self) -> Path:
        """The directory for EmbeddedPostgres."""
        return self.path / "postgres"

    def open(self) -> None:
        """Make the directory, check it, and take its lock.

        Raises:
            PlatformError: this system has no embedded stack.
            DataDirInUseError: another process holds it; the message has its pid.
            DiskFullError: too little space is free.
            DataDirError: it isn't ours, or can't be written.
        """
        check_platform()
        prepare_directory(self.path)
        check_free_space(self.path)
        account = server_account()
        if account is not None and not any(self.path.iterdir()):
            os.chown(self.path, -1, account.gid)
            self.path.chmod(0o710)
        self._lock.acquire(wait_s=1.0)
        self.unpublish()  # a killed holder's

    def close(self) -> None:
        """Take back the note and give up the lock."""
        self.unpublish()
        self._lock.release()

    def publish(self, stack: RunningStack) -> None:
        """Note where the stack is, readable by this user only."""
        write_atomically(self.path / _NOTE, json.dumps(asdict(stack), indent=2) + "\n")

    def unpublish(self) -> None:
        """Remove the note; does nothing when there is none."""
        (self.path / _NOTE).unlink(missing_ok=True)

    def remove(self) -> None:
        """Delete all data for ever, also what Postgres keeps elsewhere; the servers are stopped."""
        place = noted_place(self.postgres)
        if place is not None:
            shutil.rmtree(place, ignore_errors=True)
        shutil.rmtree(self.path, ignore_errors=True)

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def read_running(data_dir: Path) -> RunningStack | None:
    """Return the stack that runs in a data directory, or None when none does.

    A note whose writer was killed doesn't count: the directory's lock tells.
    """
    note = data_dir / _NOTE
    if not note.exists() or not DirectoryLock(data_dir).is_held():
        return None
    try:
        return RunningStack(**json.loads(note.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None  # taken back, or of another version, at this moment
