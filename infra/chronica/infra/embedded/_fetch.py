"""Fetch pinned jars from Maven Central; nothing unverified reaches the cache."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path

import requests
from jgo.config import GlobalSettings
from jgo.constants import MAVEN_CENTRAL_URL
from jgo.maven import MavenContext, PythonResolver
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from ._errors import JarChecksumError, JarsUnavailableError
from ._jars import Jar

__all__ = ["fetch_jars", "maven_context"]

_DOWNLOADS_AT_ONCE = 6
_TRIES = 3
_TIMEOUT_S = 30


def maven_context(repository_cache: Path, resolver: PythonResolver) -> MavenContext:
    """Return jgo's view of Maven: mirrors of the user's jgo configuration, then Maven Central."""
    mirrors = GlobalSettings.load().repositories
    return MavenContext(
        resolver=resolver,
        repo_cache=repository_cache,
        local_repos=[],
        remote_repos={**mirrors, "central": MAVEN_CENTRAL_URL},
        timeout=_TIMEOUT_S,
    )


def fetch_jars(
    jars: list[Jar], cache: Path, console: Console | None, cancelled: threading.Event
) -> None:
    """Bring jars into the cache, several at once; each appears there whole and verified.

    Args:
        jars: what the cache lacks.
        cache: an existing directory.
        console: where a progress bar is drawn; None draws none.
        cancelled: ends the downloads when it is set.

    Raises:
        JarsUnavailableError: a jar can't be fetched.
        JarChecksumError: what came is not what was pinned.
        OSError: the cache can't be written.
    """
    bar = Progress(
        TextColumn("Kafka's jars"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=console or Console(quiet=True),
        disable=console is None,
    )
    with (
        bar,
        tempfile.TemporaryDirectory(dir=cache, prefix=".fetch-") as temporary,
        ThreadPoolExecutor(_DOWNLOADS_AT_ONCE) as pool,
    ):
        task = bar.add_task("jars", total=sum(jar.size_bytes for jar in jars))

        def advance(count: int) -> None:
            if cancelled.is_set():
                raise JarsUnavailableError("Fetching Kafka's jars was interrupted: start again.")
            bar.advance(task, count)

        fetches = [pool.submit(_fetch, jar, Path(temporary), cache, advance) for jar in jars]
        try:
            for fetch in as_completed(fetches):
                fetch.result()
        except BaseException:
            cancelled.set()
            pool.shutdown(cancel_futures=True)
            raise


def _fetch(jar: Jar, temporary: Path, cache: Path, advance: Callable[[int], None]) -> None:
    @contextmanager
    def report(_name: str, _size: int) -> Iterator[Callable[[int], None]]:
        yield advance

    for attempt in range(1, _TRIES + 1):
        repository = Path(tempfile.mkdtemp(dir=temporary))
        resolver = PythonResolver(progress_callback=report)
        context = maven_context(repository, resolver)
        artifact = context.create_dependency(jar.coordinates).artifact
        try:
            path = resolver.download(artifact)
        except (requests.RequestException, RuntimeError) as error:
            if attempt < _TRIES and isinstance(error, requests.RequestException):
                time.sleep(attempt)
                continue
            raise JarsUnavailableError(
                f"Kafka's jar {jar.coordinates} can't be fetched from Maven Central "
                f"({type(error).__name__}): check this machine's network access (or name a mirror "
                "under [repositories] in ~/.config/jgo.conf), or set "
                "CHRONICA_KAFKA_BOOTSTRAP_SERVERS to a Kafka that runs elsewhere."
            ) from error
        if path is None or not jar.matches(path):
            raise JarChecksumError(
                f"The jar {jar.coordinates} that came is not the pinned one (its SHA-256 differs), "
                "so it was thrown away and Kafka is not started: see what stands between this "
                "machine and Maven Central, then start again."
            )
        path.replace(cache / jar.file_name)
        return
