"""From the options of a command to settings, and to the addresses of a stack that runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer
from pydantic import SecretStr, ValidationError
from pydantic_settings import SettingsError

from chronica.infra.embedded import read_running
from chronica.infra.settings import Settings

from ._terminal import CommandError

__all__ = ["DataDirOption", "TenantOption", "hidden_password", "load_settings", "postgres_dsn"]

_PASSWORDS = re.compile(r"(?<=:)[^:/?#@]+(?=@)|(?<=password=)('(?:[^'\\]|\\.)*'|[^\s&]+)")

DataDirOption = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        help="Where the stack keeps its data (CHRONICA_DATA_DIR; default .chronica).",
        show_default=False,
    ),
]
TenantOption = Annotated[
    str | None,
    typer.Option(help="Tenant (CHRONICA_TENANT; default local).", show_default=False),
]


def load_settings(**options: object) -> Settings:
    """Return the settings: the options that were given, then the environment, then the file.

    Raises:
        CommandError: one of them is not usable; the sentence names it, never its value.
    """
    given = {name: value for name, value in options.items() if value is not None}
    try:
        return Settings(**given)  # type: ignore[arg-type]  # pydantic checks them
    except ValidationError as error:
        raise CommandError(" ".join(_sentences(error, given))) from error
    except SettingsError as error:
        raise CommandError(f"The settings can't be read: {error}.") from error
    except (OSError, ValueError) as error:  # CHRONICA_CONFIG: not there, or neither TOML nor JSON
        raise CommandError(
            f"The file that CHRONICA_CONFIG names can't be read ({error}): mend it, or unset the "
            "variable. Nothing was started."
        ) from error


def _sentences(error: ValidationError, given: dict[str, object]) -> list[str]:
    sentences = []
    for problem in error.errors(include_input=False, include_url=False, include_context=False):
        name = str(problem["loc"][0]) if problem["loc"] else "settings"
        option = f"--{name.replace('_', '-')}"
        shown = option if name in given else f"CHRONICA_{name.upper()}"
        message = problem["msg"][:1].lower() + problem["msg"][1:]
        sentences.append(f"{shown} is not usable: {message}; nothing was started.")
    return sentences


def postgres_dsn(settings: Settings) -> str:
    """Return the connection string: as set, else that of the stack in the data directory.

    Raises:
        CommandError: there is neither.
    """
    dsn: SecretStr | None = settings.postgres_dsn
    if dsn is not None:
        return dsn.get_secret_value()
    running = read_running(settings.data_dir)
    if running is None:
        raise CommandError(
            f"No Chronica runs in {settings.data_dir}: start one with `chronica up`, or set "
            "CHRONICA_POSTGRES_DSN."
        )
    return running.postgres


def hidden_password(dsn: str) -> str:
    """Return a connection string to show: without what could be a password."""
    return _PASSWORDS.sub("***", dsn)
