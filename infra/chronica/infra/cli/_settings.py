"""From the options of a command, the environment and the file to settings."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError
from pydantic_settings import SettingsError

from chronica.infra.settings import Settings

from ._terminal import CommandError

__all__ = [
    "DataDirOption",
    "HostOption",
    "PortOption",
    "TenantOption",
    "hidden_password",
    "load_settings",
]

_PASSWORDS = re.compile(r"(?<=:)[^:/?#@]+(?=@)|(?<=password=)('(?:[^'\\]|\\.)*'|[^\s&]+)")
_TOML_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")

DataDirOption = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        help="Where the stack keeps its data (CHRONICA_DATA_DIR; default .chronica).",
        show_default=False,
    ),
]
HostOption = Annotated[
    str | None,
    typer.Option(help="Address the API binds (default 127.0.0.1).", show_default=False),
]
PortOption = Annotated[
    int | None,
    typer.Option(min=0, max=65535, help="Port the API binds, 0 takes a free one (default 8800)."),
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
    except (OSError, TypeError, ValueError) as error:
        raise CommandError(_file_sentence(error)) from error


def _file_sentence(error: Exception) -> str:
    """Say what is wrong with the file that CHRONICA_CONFIG names: not there, or not readable."""
    file = Path(os.environ.get("CHRONICA_CONFIG", ""))
    mend = "mend it, or unset CHRONICA_CONFIG; nothing was started."
    if isinstance(error, OSError):
        why = f"can't be read ({error.strerror})" if error.strerror else "is not a file"
        return f"CHRONICA_CONFIG names {file}, which {why}: {mend}"
    kind = "JSON" if file.suffix == ".json" else "TOML"
    what, line = str(error), 0
    if isinstance(error, json.JSONDecodeError):
        what, line = error.msg, error.lineno
    elif isinstance(error, UnicodeDecodeError):
        what, line = "not UTF-8", error.object[: error.start].count(b"\n") + 1
    elif place := _TOML_PLACE.search(what):
        what = what[: place.start()]
        line = int(place[1] or len(file.read_text("utf-8").splitlines()))
    elif isinstance(error, TypeError):
        what = "no table of settings"  # JSON, but a list or the like
    where = f", line {line}," if line else ""
    what = what[:1].lower() + what[1:]
    return f"The settings file {file}{where} is not usable {kind} ({what}): {mend}"


def _sentences(error: ValidationError, given: dict[str, object]) -> list[str]:
    sentences = []
    for problem in error.errors(include_input=False, include_url=False, include_context=False):
        name = str(problem["loc"][0]) if problem["loc"] else ""
        shown = _shown(name, given)
        if problem["type"] == "extra_forbidden":
            sentences.append(
                f"{shown} is not known: correct its name, or take it out; nothing was started."
            )
            continue
        message = problem["msg"][:1].lower() + problem["msg"][1:]
        sentences.append(f"{shown} is not usable: {message}; nothing was started.")
    return sentences


def _shown(name: str, given: dict[str, object]) -> str:
    """Name a setting by where its value comes from: option, environment, or file."""
    if name in given:
        return f"--{name.replace('_', '-')}"
    variable = f"CHRONICA_{name.upper()}"
    if variable in map(str.upper, os.environ):
        return variable
    file = os.environ.get("CHRONICA_CONFIG")
    setting = f"The setting `{name}`" if name else "A setting"
    return f"{setting} in {file}" if file else setting


def hidden_password(dsn: str) -> str:
    """Return a connection string to show: without what could be a password."""
    return _PASSWORDS.sub("***", dsn)
