"""Which stack a command is for: the one that is set, or the one that runs; never half of each."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from chronica.infra.cli import _status
from chronica.infra.cli._program import command, program, runnable
from chronica.infra.cli._running import postgres_dsn, resolved, running_stack
from chronica.infra.cli._terminal import CommandError
from chronica.infra.embedded import DataDir, RunningStack
from chronica.infra.settings import Settings

KAFKA, DSN, API = "127.0.0.1:1", "postgresql://me:pw@127.0.0.1:2/x", "http://127.0.0.1:8800"


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("CHRONICA_"):
            monkeypatch.delenv(name)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Path]:
    """A data directory in which a stack seems to run."""
    with DataDir(tmp_path / "data") as data_dir:
        data_dir.publish(RunningStack(pid=os.getpid(), api=API, kafka=KAFKA, postgres=DSN))
        yield data_dir.path


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The URLs that are asked; each answers that it is ready."""
    urls: list[str] = []

    def get(url: str, **_options: object) -> httpx.Response:
        urls.append(url)
        return httpx.Response(200, json={"ready": True, "lag": {}, "reasons": []})

    monkeypatch.setattr(httpx, "get", get)
    return urls


def settings(data_dir: Path, **fields: Any) -> Settings:
    return Settings(data_dir=data_dir, **fields)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"kafka_bootstrap_servers": KAFKA},
        {"kafka_bootstrap_servers": KAFKA, "postgres_dsn": DSN},
    ],
)
def test_the_stack_that_runs_counts_if_what_is_set_is_its_own(
    fields: dict[str, Any], running: Path, asked: list[str]
) -> None:
    found = _status._look(settings(running, **fields))
    assert (found.api, found.kafka, found.postgres, found.ready) == (API, KAFKA, DSN, True)
    assert asked == [f"{API}/ready"]


def test_with_other_addresses_the_api_of_the_settings_is_asked(
    running: Path, asked: list[str]
) -> None:
    other = settings(running, kafka_bootstrap_servers="k:1", postgres_dsn="host=p", port=9000)
    found = _status._look(other)
    assert (found.kafka, found.postgres) == ("k:1", "host=p")
    assert asked == ["http://127.0.0.1:9000/ready"]
    assert running_stack(other) is None


def test_the_api_of_one_stack_is_not_shown_as_that_of_another(
    running: Path, asked: list[str]
) -> None:
    found = _status._look(settings(running, kafka_bootstrap_servers="k:1", postgres_dsn="host=p"))
    assert (found.api, found.ready, asked) == (None, False, [])
    assert "other addresses" in found.reasons[0]


def test_half_of_another_stack_is_refused(running: Path) -> None:
    half = settings(running, kafka_bootstrap_servers="k:1")
    with pytest.raises(CommandError, match="set CHRONICA_POSTGRES_DSN too"):
        resolved(half)
    with pytest.raises(CommandError, match="set CHRONICA_POSTGRES_DSN too"):
        postgres_dsn(half)
    assert "set CHRONICA_POSTGRES_DSN too" in _status._look(half).reasons[0]
    whole = resolved(settings(running))
    assert (whole.kafka_bootstrap_servers, postgres_dsn(settings(running))) == (KAFKA, DSN)


def test_a_directory_that_cannot_be_read_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def closed(*_arguments: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", closed)
    for look in (running_stack, resolved, postgres_dsn, _status._look):
        with pytest.raises(CommandError, match=r"can't be read \(Permission denied\)"):
            look(settings(tmp_path))


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A program chronica in .venv/bin, below the directory the user is in."""
    file = tmp_path / ".venv" / "bin" / "chronica"
    file.parent.mkdir(parents=True)
    file.write_text("#!/bin/sh\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin")
    return file


@pytest.mark.parametrize("absolute", [False, True])
def test_a_hint_names_the_program_as_it_can_be_run(
    absolute: bool, installed: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", [str(installed) if absolute else ".venv/bin/chronica"])
    assert program() == ".venv/bin/chronica"
    assert runnable("Run `chronica up`.") == "Run `.venv/bin/chronica up`."
    assert command("up", "--data-dir", Path("a b")) == ".venv/bin/chronica up --data-dir 'a b'"
    monkeypatch.chdir(installed.parent)
    monkeypatch.setattr(sys, "argv", ["chronica"])
    assert program() == "./chronica"
    monkeypatch.setenv("PATH", str(installed.parent))
    assert program() == "chronica", "the shell finds it"


def test_another_program_of_the_name_is_not_this_one(
    installed: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = tmp_path / "other" / "chronica"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(other.parent))
    monkeypatch.setattr(sys, "argv", [str(installed)])
    assert program() == ".venv/bin/chronica"


def test_a_note_of_a_stack_that_is_gone_does_not_count(tmp_path: Path) -> None:
    note = {"pid": 1, "api": API, "kafka": KAFKA, "postgres": DSN}
    (tmp_path / "stack.json").write_text(json.dumps(note))
    assert running_stack(settings(tmp_path)) is None
    with pytest.raises(CommandError, match="No Chronica runs"):
        resolved(settings(tmp_path))
