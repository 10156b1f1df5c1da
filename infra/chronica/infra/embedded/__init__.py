"""Kafka and Postgres from wheels, run by this process and gone with it.

``EmbeddedKafka`` and ``EmbeddedPostgres`` are async context managers; ``DataDir`` holds their
directory. Everything that keeps them from starting is a ``StartError`` whose text is for the user.
"""

from ._datadir import DataDir, RunningStack, read_running
from ._errors import (
    DataDirError,
    DataDirInUseError,
    DiskFullError,
    JarChecksumError,
    JarsUnavailableError,
    NotRunningError,
    PlatformError,
    PortTakenError,
    ServerAccountError,
    ServerDiedError,
    StartError,
    StartTimeoutError,
)
from ._jars import ensure_jars
from ._kafka import EmbeddedKafka
from ._postgres import EmbeddedPostgres

__all__ = [
    "DataDir",
    "DataDirError",
    "DataDirInUseError",
    "DiskFullError",
    "EmbeddedKafka",
    "EmbeddedPostgres",
    "JarChecksumError",
    "JarsUnavailableError",
    "NotRunningError",
    "PlatformError",
    "PortTakenError",
    "RunningStack",
    "ServerAccountError",
    "ServerDiedError",
    "StartError",
    "StartTimeoutError",
    "ensure_jars",
    "read_running",
]
