"""The commands and programs in our documents, taken out of them and run as a reader would.

Every fenced block names what it is. ``bash`` and ``python`` blocks are run, in the order of the
document, in a folder where ``.venv`` is and a stack runs; ``json`` and ``toml`` must parse;
``text`` is for people. What can't be the same on a test's machine (the port, the reader's own
servers) is replaced before.
"""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["LANGUAGES", "Snippet", "run_bash", "run_python", "snippets_of"]

LANGUAGES = frozenset(("bash", "python", "json", "toml", "text"))

_FENCE = re.compile(r"^ *```([^\n`]*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_SERVES = re.compile(r"\.venv/bin/chronica (up|api|recorder)\b")
_EXPORT = re.compile(r"export ")
_MAKE = re.compile(r"make ")
_ROOT = Path(__file__).parents[2]
_STARTS_WITHIN_S = 3.0
_RUNS_WITHIN_S = 120.0
_STOPS_WITHIN_S = 30.0
# An answer that is an error fails its block: documents show what works.
_PRELUDE = 'curl() { command curl --fail-with-body "$@"; }\n'


@dataclass(frozen=True)
class Snippet:
    """One fenced block: its language, its text, and the line it starts at."""

    language: str
    text: str
    line: int

    def replaced(self, words: Mapping[str, str]) -> str:
        """Return its text with what differs on this machine."""
        text = self.text
        for word, instead in words.items():
            text = text.replace(word, instead)
        return text


def snippets_of(document: Path) -> list[Snippet]:
    """Return the fenced blocks of a document, in order."""
    text = document.read_text("utf-8")
    return [
        Snippet(match[1].strip(), match[2], text.count("\n", 0, match.start()) + 1)
        for match in _FENCE.finditer(text)
    ]


def run_bash(text: str, folder: Path, environment: Mapping[str, str]) -> str:
    """Run a block; a command that serves runs beside those after it, and must end well."""
    printed = exports = ""
    with ExitStack() as serving:
        for part in _parts(text):
            if _SERVES.search(part):
                serving.enter_context(_serving(part, exports, folder, environment))
                continue
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", _PRELUDE + exports + part],
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_RUNS_WITHIN_S,
            )
            said = done.stdout + done.stderr
            assert done.returncode == 0, f"{part}\nended with {done.returncode}:\n{said}"
            printed += done.stdout
            exports += "".join(f"{line}\n" for line in part.splitlines() if _EXPORT.match(line))
    return printed


def _parts(text: str) -> Iterator[str]:
    """Yield the commands that serve, and what stands between them."""
    part = ""
    for line in text.splitlines():
        if _SERVES.search(line):
            yield from filter(None, [part])
            yield line
            part = ""
        else:
            part += _dry(line) + "\n"
    yield from filter(None, [part])


def _dry(line: str) -> str:
    """Return a command as it is run here: of a target of make only that it is there."""
    return line.replace("make ", f"make --dry-run -C {_ROOT} ", 1) if _MAKE.match(line) else line


def run_python(text: str, folder: Path, environment: Mapping[str, str]) -> str:
    """Run a program with this interpreter."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", text],
        cwd=folder,
        env=dict(environment),
        capture_output=True,
        text=True,
        timeout=_RUNS_WITHIN_S,
    )
    assert done.returncode == 0, f"{text}\nended with {done.returncode}:\n{done.stderr}"
    return done.stdout


@contextmanager
def _serving(
    line: str, exports: str, folder: Path, environment: Mapping[str, str]
) -> Iterator[None]:
    process = subprocess.Popen(
        ["bash", "-euc", f"{exports}exec {shlex.join(shlex.split(line, comments=True))}"],
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    time.sleep(_STARTS_WITHIN_S)  # a server that can't start has said so by then
    assert process.poll() is None, f"{line} ended: {process.communicate()[0]}"
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=_STOPS_WITHIN_S)
        assert process.returncode == 0, f"{line} ended with {process.returncode}: {output}"
