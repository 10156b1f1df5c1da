"""This program's name as its user's shell takes it, so that a hint can be copied and run."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

__all__ = ["command", "program", "runnable"]

_NAME = "chronica"


def program() -> str:
    """Return ``chronica`` where the shell finds this one by it, else the path to it."""
    invoked = Path(sys.argv[0])
    if invoked.name != _NAME or not invoked.exists():
        return _NAME  # started some other way: what is installed is called so
    found = shutil.which(_NAME)
    if found is not None and Path(found).samefile(invoked):
        return _NAME
    path = str(invoked)
    if invoked.is_absolute() and invoked.is_relative_to(Path.cwd()):
        path = str(invoked.relative_to(Path.cwd()))
    # A name without a slash would be looked for on the PATH, where it isn't.
    return shlex.quote(path if os.sep in path else f".{os.sep}{path}")


def command(*arguments: str | Path) -> str:
    """Return a command line of this program, quoted as a shell needs it."""
    return " ".join((program(), *(shlex.quote(str(argument)) for argument in arguments)))


def runnable(sentence: str) -> str:
    """Return a sentence in which every `chronica …` is a command that its reader can run.

    The sentences of the lower layers name commands too, and know nothing of the command line.
    """
    return sentence.replace(f"`{_NAME} ", f"`{program()} ")
