"""What all commands share towards the terminal: consoles, and how a command fails."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer
from rich.console import Console
from rich.text import Text

from ._program import runnable

__all__ = [
    "CommandError",
    "busy",
    "counted_acta",
    "errors",
    "fail",
    "note",
    "output",
    "printable",
    "write_out",
]


class CommandError(Exception):
    """A command can't do what it was asked; ``str()`` is the sentence for its user."""


_KEPT = "\n\t\u200d"


def output() -> Console:
    """Return a console on standard output; made when used, so that tests can capture it."""
    return Console(highlight=False, soft_wrap=False)


def errors() -> Console:
    """Return a console on standard error: progress, notes and errors."""
    return Console(stderr=True, highlight=False)


@contextmanager
def busy(console: Console, what: str) -> Iterator[None]:
    """Show that something goes on: a spinner on a terminal, else a line."""
    if console.is_terminal:
        with console.status(what):
            yield
    else:
        console.print(what)
        yield


def write_out(text: str) -> None:
    """Write a line to standard output as it is: for machines, whatever the width or encoding."""
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace") + b"\n")
    sys.stdout.flush()


def counted_acta(count: int) -> str:
    """Return "1 actum", "2 acta"."""
    return f"{count:,} {'actum' if count == 1 else 'acta'}"


def note(sentence: str) -> None:
    """Say something on standard error that doesn't end the command."""
    errors().print(printable(runnable(sentence)), markup=False, soft_wrap=True)


def printable(text: str) -> str:
    r"""Return text that no terminal acts upon: what isn't printable becomes ``\x1b`` and the like.

    Control characters would move the cursor or change colours, marks of direction would reorder
    the line, and a lone surrogate can't be encoded at all. Spaces of all kinds, line feeds and tabs
    stay, and what joins emoji.
    """
    if text.isprintable():
        return text
    return "".join(
        char
        if char.isprintable() or char in _KEPT or unicodedata.category(char) == "Zs"
        else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def fail(sentence: str, code: int = 1) -> NoReturn:
    """Say one sentence on standard error and end the command."""
    line = Text.assemble(("Error: ", "bold red"), printable(runnable(sentence)))
    errors().print(line, soft_wrap=True)
    raise typer.Exit(code)
