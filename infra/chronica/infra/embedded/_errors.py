"""What can keep the embedded stack from starting, each said in one sentence for its reader."""

from __future__ import annotations

__all__ = [
    "DataDirError",
    "DataDirInUseError",
    "DiskFullError",
    "JarChecksumError",
    "JarsUnavailableError",
    "NotRunningError",
    "PlatformError",
    "PortTakenError",
    "ServerAccountError",
    "ServerDiedError",
    "StartError",
    "StartTimeoutError",
]


class StartError(Exception):
    """A part of the stack can't start; ``str()`` says what happened and what to do next."""


class PlatformError(StartError):
    """This operating system has no embedded servers."""


class JarsUnavailableError(StartError):
    """Kafka's jars are not in the cache and can't be fetched."""


class JarChecksumError(StartError):
    """A jar is not the one that was pinned, so it is not run."""


class PortTakenError(StartError):
    """The port that was asked for belongs to another process."""


class DataDirError(StartError):
    """The data directory can't be used: wrong owner, not writable, or of another version."""


class DataDirInUseError(DataDirError):
    """Another process holds the data directory."""


class DiskFullError(DataDirError):
    """The file system has too little free space to start on."""


class ServerAccountError(StartError):
    """Started as root, and no account to run Postgres as can be had."""


class ServerDiedError(StartError):
    """A server ended while it was starting; the message has the last lines of its log."""


class StartTimeoutError(StartError):
    """A server was not ready in time."""


class NotRunningError(StartError):
    """The server was asked for something that only a running one has."""
