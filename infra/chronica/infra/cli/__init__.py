"""The command line: every command of ``chronica``, a module a group of commands.

It sits above everything else and nothing imports it. Whatever a person has to know comes as one
sentence on standard error, with an exit code that is not 0.
"""

from ._app import main

__all__ = ["main"]
