"""Pin Kafka's jars anew: what ``make lock`` runs when the version of Kafka changes."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from jgo.maven import Artifact, MavenContext, PythonResolver

from ._fetch import maven_context
from ._jars import LOCK_PATH

__all__ = ["lock_jars", "maven", "resolve", "write_lock"]

_KAFKA = "org.apache.kafka:kafka_2.13:4.3.1"
# Kafka logs through slf4j and brings log4j, but not the jar that ties the two. Resolved on its
# own, because its parent's table of versions would otherwise change those of Kafka's own jars.
_BINDING = "org.apache.logging.log4j:log4j-slf4j-impl"
_LOG4J = "org.apache.logging.log4j:log4j-core"

_HEADER = """\
# Every jar that the embedded Kafka runs: coordinates, SHA-256, size in bytes.
# Made by `make lock`; only jars that match are ever run.
"""


def lock_jars(path: Path = LOCK_PATH) -> int:
    """Resolve Kafka's jars, fetch them, and write their lock; return how many there are."""
    with maven() as context:
        artifacts = resolve(context, _KAFKA)
        log4j = next(a.version for a in artifacts if f"{a.groupId}:{a.artifactId}" == _LOG4J)
        artifacts.append(context.create_dependency(f"{_BINDING}:{log4j}").artifact)
        return write_lock(path, _HEADER, artifacts)


@contextmanager
def maven() -> Iterator[MavenContext]:
    """Give a view of Maven with an empty cache, so that nothing local is ever pinned."""
    with tempfile.TemporaryDirectory() as temporary:
        yield maven_context(Path(temporary), PythonResolver())


def resolve(context: MavenContext, root: str) -> list[Artifact]:
    """Return an artifact, given as ``group:artifact:version``, and all that it needs."""
    inputs, transitive = context.resolver.resolve([context.create_dependency(root)])
    return [dependency.artifact for dependency in (*inputs, *transitive)]


def write_lock(path: Path, header: str, artifacts: Sequence[Artifact]) -> int:
    """Fetch the artifacts and write their lock below a header; return how many there are."""
    with ThreadPoolExecutor(6) as pool:
        paths = list(pool.map(lambda artifact: artifact.resolve(), artifacts))
    lines = [
        f"{artifact.groupId}:{artifact.artifactId}:{artifact.version} "
        f"{hashlib.sha256(jar.read_bytes()).hexdigest()} {jar.stat().st_size}\n"
        for artifact, jar in zip(artifacts, paths, strict=True)
    ]
    path.write_text(header + "".join(sorted(lines)), encoding="ascii")
    return len(lines)
