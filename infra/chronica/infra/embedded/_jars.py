"""Kafka's jars: pinned in ``kafka.lock``, fetched once into a cache, verified at every start."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from ._errors import JarChecksumError, JarsUnavailableError

__all__ = ["LOCK_PATH", "Jar", "bring_jars", "cache_directory", "ensure_jars", "read_lock"]

LOCK_PATH = Path(__file__).with_name("kafka.lock")
_STALE_S = 24 * 3600.0


@dataclass(frozen=True)
class Jar:
    """One pinned jar: Maven coordinates ``group:artifact:version``, SHA-256, size."""

    coordinates: str
    sha256: str
    size_bytes: int

    @property
    def file_name(self) -> str:
        """Its name in the cache; the hash is part of it, so another jar never takes its place."""
        _, artifact, version = self.coordinates.split(":")
        return f"{artifact}-{version}-{self.sha256[:16]}.jar"

    def matches(self, path: Path) -> bool:
        """Tell whether the file is this jar, byte for byte."""
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == self.sha256


def read_lock(path: Path = LOCK_PATH) -> list[Jar]:
    """Read the pinned jars: a line each of coordinates, SHA-256 and size in bytes."""
    lines = path.read_text(encoding="ascii").splitlines()
    pinned = (line.split() for line in lines if line and not line.startswith("#"))
    return [Jar(coordinates, sha256, int(size)) for coordinates, sha256, size in pinned]


def cache_directory() -> Path:
    """Return where jars are kept for all projects of this user; XDG_CACHE_HOME moves it."""
    base = os.environ.get("XDG_CACHE_HOME")
    root = Path(base) if base and Path(base).is_absolute() else Path.home() / ".cache"
    return root / "chronica" / "jars"


def ensure_jars(
    *, console: Console | None = None, cancelled: threading.Event | None = None
) -> list[Path]:
    """Return Kafka's class path, fetching what the cache lacks and verifying every jar.

    Args:
        console: where a progress bar is drawn while jars come; None draws none.
        cancelled: ends a download when it is set.

    Raises:
        JarsUnavailableError: jars are missing and can't be fetched.
        JarChecksumError: what came is not what was pinned.
    """
    return bring_jars(read_lock(), console=console, cancelled=cancelled)


def bring_jars(
    jars: list[Jar], *, console: Console | None = None, cancelled: threading.Event | None = None
) -> list[Path]:
    """Return where the jars of any lock are, as ``ensure_jars`` does for Kafka's."""
    cache = cache_directory()
    missing = [jar for jar in jars if not _is_cached(jar, cache)]
    if missing:
        # Only now: jgo takes half a second to import, which later starts needn't pay.
        from ._fetch import fetch_jars  # noqa: PLC0415

        try:
            cache.mkdir(mode=0o700, parents=True, exist_ok=True)
            _sweep(cache)
            fetch_jars(missing, cache, console, cancelled or threading.Event())
        except OSError as error:
            raise JarsUnavailableError(
                f"Kafka's jars can't be kept in {cache} ({error.strerror or error}): free space "
                "there or make it writable, or set XDG_CACHE_HOME to another directory."
            ) from error
    return [cache / jar.file_name for jar in jars]


def _is_cached(jar: Jar, cache: Path) -> bool:
    path = cache / jar.file_name
    try:
        if jar.matches(path):
            return True
        path.unlink()  # damaged on disk; the pinned one is fetched again
    except FileNotFoundError:
        pass
    except OSError as error:
        raise JarChecksumError(
            f"{path} can't be verified ({error.strerror}), so Kafka is not started: delete that "
            "file, then start again."
        ) from error
    return False


def _sweep(cache: Path) -> None:
    """Remove what downloads that were killed left behind, but not those of a living process."""
    for leftover in cache.glob(".fetch-*"):
        if time.time() - leftover.stat().st_mtime > _STALE_S:
            shutil.rmtree(leftover, ignore_errors=True)
