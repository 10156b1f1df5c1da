"""Documents tell the truth: what they show is run, what they link to is there."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from tests.harness.running import fresh_database, until
from tests.harness.snippets import LANGUAGES, Snippet, run_bash, run_python, snippets_of

from chronica.infra.embedded import EmbeddedKafka, EmbeddedPostgres, read_running

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
RUN = ("README.md", "docs/api.md", "docs/operations.md")
"""The documents whose commands are run; the others must have none."""

_LINK = re.compile(r"\]\((?!https?:)([^)\s]*)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def anchors(document: Path) -> set[str]:
    """Return the anchors that a document's headings make, as forges make them."""
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in _HEADING.findall(document.read_text("utf-8"))
    }


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere_and_blocks_say_what_they_are(document: Path) -> None:
    for link in _LINK.findall(document.read_text("utf-8")):
        file, _, anchor = link.partition("#")
        target = (document.parent / file).resolve() if file else document
        assert target.exists(), f"{link} leads nowhere"
        if anchor:
            assert anchor in anchors(target), f"{link}: no such heading"
    for snippet in snippets_of(document):
        where = f"{document.name}, line {snippet.line}"
        assert snippet.language in LANGUAGES, f"{where}: name its language, one of {LANGUAGES}"
        if snippet.language == "json":
            for line in snippet.text.splitlines():
                json.loads(line)
        elif snippet.language == "toml":
            tomllib.loads(snippet.text)
        elif snippet.language in ("bash", "python"):
            assert str(document.relative_to(ROOT)) in RUN, f"{where}: nobody runs it"


@dataclass(frozen=True)
class Reader:
    """A reader of the documents: in a folder of their own, where a stack runs."""

    folder: Path
    environment: dict[str, str]
    words: dict[str, str]

    def run(self, snippet: Snippet) -> str:
        """Do what a block says; returns what it printed."""
        text = snippet.replaced(self.words)
        if snippet.language == "python":
            return run_python(text, self.folder, self.environment)
        return run_bash(text, self.folder, self.environment)


@pytest.fixture
def reader(kafka: EmbeddedKafka, postgres: EmbeddedPostgres, tmp_path: Path) -> Iterator[Reader]:
    """A reader who has just said ``make run`` in another terminal."""
    (tmp_path / ".venv").symlink_to(sys.prefix)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("CHRONICA_")}
    with fresh_database(postgres.dsn) as dsn, fresh_database(postgres.dsn) as theirs:
        addresses = {
            "CHRONICA_KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
            "CHRONICA_POSTGRES_DSN": dsn,
        }
        up = subprocess.Popen(
            [tmp_path / ".venv/bin/chronica", "up", "--port", "0"],
            cwd=tmp_path,
            env=environment | addresses,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            until(lambda: _ready(tmp_path), "the stack is ready")
            running = read_running(tmp_path / ".chronica")
            assert running is not None
            assert running.api is not None
            yield Reader(
                tmp_path,
                environment,
                {
                    "http://127.0.0.1:8800": running.api,
                    "kafka-1:9092,kafka-2:9092,kafka-3:9092": kafka.bootstrap_servers,
                    "postgresql://chronica:secret@db/chronica": theirs,
                },
            )
        finally:
            up.send_signal(signal.SIGINT)
            output, _ = up.communicate(timeout=60)
        assert up.returncode == 0, output


def _ready(folder: Path) -> bool:
    running = read_running(folder / ".chronica")
    if running is None or running.api is None:
        return False
    return httpx.get(f"{running.api}/ready").status_code == 200


@pytest.mark.parametrize("name", RUN)
def test_what_a_document_shows_works(name: str, reader: Reader) -> None:
    ran = 0
    for snippet in snippets_of(ROOT / name):
        if snippet.language in ("bash", "python"):
            try:
                reader.run(snippet)
            except AssertionError as error:
                raise AssertionError(f"{name}, line {snippet.line}: {error}") from None
            ran += 1
    assert ran, f"{name} shows nothing to run"
