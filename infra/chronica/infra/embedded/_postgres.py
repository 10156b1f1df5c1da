"""An embedded Postgres: its cluster made at the first start, then run on loopback."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import threading
from pathlib import Path
from typing import ClassVar

from ._account import Account, server_account
from ._errors import DataDirError
from ._files import write_atomically
from ._place import MAJOR_VERSION, data_place, programs
from ._ports import LOOPBACK, PortBook
from ._server import Launch, Server
from ._tool import run_tool

__all__ = ["EmbeddedPostgres"]

_USER = "chronica"
_DATABASE = "chronica"

# Durable defaults stay as they are: fsync and synchronous_commit are on.
_CONFIGURATION = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",  # a path there may be longer than a socket's may be
    "max_connections": "200",
    "shared_buffers": "256MB",
    "log_line_prefix": "%m [%p] ",
    "log_timezone": "UTC",
    "timezone": "UTC",
    "cluster_name": "chronica",
}


class EmbeddedPostgres(Server):
    """PostgreSQL 18 on loopback, with password, its data in a directory of its own.

    Started as root, it runs as the system account ``chronica``; where that account can't reach
    the directory, the data is kept in ``/var/lib/chronica`` (see ``data_path``).

    Args:
        directory: holds the data, the log, the password (readable by its owner only), the port.
        port: the port that must be taken; else the one of the last start, or a free one.
    """

    name = "Postgres"
    start_timeout_s: ClassVar[float] = 300.0  # recovery after a crash reads the whole WAL
    stop_timeout_s: ClassVar[float] = 10.0

    def __init__(self, directory: Path, *, port: int | None = None) -> None:
        super().__init__(directory)
        self._wanted_port = port
        self._port: int | None = None
        self._data: Path | None = None

    @property
    def port(self) -> int:
        """The TCP port it listens on.

        Raises:
            DataDirError: it has never been started.
        """
        if self._port is None:
            raise DataDirError("Postgres has no port before its first start: start it first.")
        return self._port

    @property
    def data_path(self) -> Path:
        """The cluster's files.

        Raises:
            DataDirError: it has never been started.
        """
        if self._data is None:
            raise DataDirError("Postgres has no data before its first start: start it first.")
        return self._data

    @property
    def dsn(self) -> str:
        """Connection string of the superuser and the database ``chronica``; a secret."""
        password = self._password_path.read_text(encoding="ascii").strip()
        return f"postgresql://{_USER}:{password}@{LOOPBACK}:{self.port}/{_DATABASE}"

    @property
    def _password_path(self) -> Path:
        return self.directory / "password"

    def _prepare(self, cancelled: threading.Event) -> Launch:  # noqa: ARG002  (all steps are short)
        account = server_account()
        place = data_place(self.directory, account)
        bin_path = programs(account)
        self._data = place / "data"
        if not self._data.exists():
            self._make_cluster(place, bin_path, account)
        _check_version(self._data)
        ports = PortBook(self.directory / "ports.json").choose({"Postgres": self._wanted_port})
        self._port = ports["Postgres"]
        # We hold the directory's lock, so no postmaster is alive: the file is a crashed one's, and
        # its pid may be anyone's by now, which would keep the new one from starting.
        (self._data / "postmaster.pid").unlink(missing_ok=True)
        options = [f"{name}={value}" for name, value in _CONFIGURATION.items()]
        return Launch(
            command=[
                *(str(bin_path / "postgres"), "-D", str(self._data), "-p", str(self._port)),
                *(part for option in options for part in ("-c", option)),
            ],
            cwd=Path("/"),
            env=_environment(),
            account=account,
            stops=[(signal.SIGINT, 7.0), (signal.SIGQUIT, 1.5), (signal.SIGKILL, 1.0)],
        )

    def _ready(self) -> bool:
        try:
            lines = (self.data_path / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[0] == str(self._pid) and lines[7].strip() == "ready"

    def _make_cluster(self, place: Path, bin_path: Path, account: Account | None) -> None:
        """Make the cluster beside its place and move it there whole, so none is ever half made."""
        password = secrets.token_hex(24)
        half_made = place / "data.new"
        shutil.rmtree(half_made, ignore_errors=True)
        half_made.mkdir(mode=0o700)
        password_file = place / "password.new"
        write_atomically(password_file, password)
        if account is not None:
            for path in (half_made, password_file):
                os.chown(path, account.uid, account.gid)
        try:
            run_tool(
                "Making the Postgres cluster",
                [
                    *(str(bin_path / "initdb"), "-D", str(half_made), "--username", _USER),
                    *("--pwfile", str(password_file), "--auth", "scram-sha-256"),
                    *("--encoding", "UTF8", "--locale", "C"),
                    *("--locale-provider", "builtin", "--builtin-locale", "C.UTF-8"),
                ],
                account=account,
                env=_environment(),
                cwd=Path("/"),
            )
            run_tool(
                "Making the database",
                [str(bin_path / "postgres"), "--single", "-D", str(half_made), "postgres"],
                account=account,
                env=_environment(),
                cwd=Path("/"),
                text=f"CREATE DATABASE {_DATABASE}\n",
            )
        finally:
            password_file.unlink(missing_ok=True)
        write_atomically(self._password_path, f"{password}\n")
        half_made.rename(place / "data")


def _check_version(data: Path) -> None:
    version = (data / "PG_VERSION").read_text(encoding="ascii").strip()
    if version != str(MAJOR_VERSION):
        raise DataDirError(
            f"{data} was made by PostgreSQL {version}, and this is {MAJOR_VERSION}: choose another "
            "data directory; the log in Kafka rebuilds what Postgres held."
        )


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    return {**kept, "LC_ALL": "C", "TZ": "UTC"}
