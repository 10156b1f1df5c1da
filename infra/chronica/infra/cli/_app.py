"""The Typer application, and the one place where errors become sentences.

The modules of the commands import what is heavy (Kafka's and Postgres' drivers, the API) when a
command runs, not before: help comes at once, and `chronica status` pays for nothing it doesn't use.
"""

from __future__ import annotations

import asyncio
import inspect
import io
import logging
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated

import typer
from rich.markup import escape

from ._api import api
from ._demo import demo
from ._import import import_file
from ._keys import keys_create, keys_list, keys_revoke
from ._recorder import migrate, recorder
from ._status import status
from ._tail import tail
from ._terminal import fail, write_out
from ._up import up
from ._window import window

__all__ = ["main"]

# In the order of the help.
_COMMANDS: dict[str, Callable[..., None]] = {
    "up": up,
    "demo": demo,
    "status": status,
    "window": window,
    "tail": tail,
    "import": import_file,
    "api": api,
    "recorder": recorder,
    "migrate": migrate,
}
# Commands of two words, below the help of their group.
_GROUPS: dict[str, tuple[str, dict[str, Callable[..., None]]]] = {
    "keys": (
        "Make, list and revoke API keys.",
        {"create": keys_create, "list": keys_list, "revoke": keys_revoke},
    ),
}


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; always ends with SystemExit.

    Args:
        arguments: without the program's name; None takes those of the process.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that can't show a character is no reason to fail.
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            _application()(arguments, prog_name="chronica")
        except KeyboardInterrupt:
            fail("Interrupted.", 130)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  (all become sentences)
            fail(_sentence(error))
    except typer.Exit as ending:
        sys.exit(ending.exit_code)


def _application() -> typer.Typer:
    app = typer.Typer(
        help="Memory and flight recorder for fleets of AI agents.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    _add_commands(app, _COMMANDS)
    for name, (about, commands) in _GROUPS.items():
        group = typer.Typer(help=about, no_args_is_help=True, rich_markup_mode="rich")
        _add_commands(group, commands)
        app.add_typer(group, name=name)
    return app


def _add_commands(app: typer.Typer, commands: dict[str, Callable[..., None]]) -> None:
    for name, command in commands.items():
        app.command(name, help=_help(command))(command)


def _options(
    *,
    show_version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Show the version.",
            callback=lambda wanted: _show_version() if wanted else None,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Take the options that stand before a command."""


def _show_version() -> None:
    write_out(f"chronica {version('chronica')}")
    raise typer.Exit


def _help(command: Callable[..., None]) -> str:
    """Return a command's docstring as Rich shows it: paragraphs flow, indented lines stay."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(
        escape(text if "\n  " in text else " ".join(text.split())) for text in paragraphs
    )


def _sentence(error: BaseException) -> str:
    """Return what the user is told: our own errors are sentences, any other is a fault of ours."""
    # By module, not by class: naming the classes here would import everything.
    if any(kind.__module__.startswith("chronica.") for kind in type(error).__mro__):
        return str(error)
    # Nobody is shown a traceback who hasn't asked for it.
    logging.getLogger("chronica").debug("unexpected", exc_info=error)
    return (
        f"Something unexpected happened ({type(error).__name__}: {error}): please report it; "
        "CHRONICA_LOG_LEVEL=DEBUG shows where."
    )
