"""The command line without servers: help, settings, and errors that are one sentence."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from chronica.infra.cli import main
from chronica.infra.cli._settings import hidden_password, load_settings

COMMANDS = ("up", "demo", "status", "window", "import", "recorder", "migrate")


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No settings from outside, no stack, a wide terminal, and the logging of before."""
    for name in list(os.environ):
        if name.startswith("CHRONICA_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("CHRONICA_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "200")
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ending:
        main(list(arguments))
    assert ending.value.code is None or isinstance(ending.value.code, int)
    return ending.value.code or 0


def error_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a command that fails; return its one sentence."""
    assert run(*arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("Error: ")
    assert captured.err.count("\n") == 1
    assert "Traceback" not in captured.err
    return captured.err


def test_the_version_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out == f"chronica {version('chronica')}\n"


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    shown = capsys.readouterr().out
    for command in COMMANDS:
        assert re.search(rf"│ {command} ", shown), command


@pytest.mark.parametrize("command", COMMANDS)
def test_every_commands_help_has_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command, "--help") == 0
    shown = capsys.readouterr().out
    assert "Examples:" in shown
    assert f"   chronica {command}" in shown


def test_an_unknown_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("dance") == 2
    assert "dance" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ("recorder",),
        ("migrate",),
        ("window", "c", "--owner", "o"),
        ("import", __file__, "--format", "openai-chat", "--owner", "o"),
    ],
)
def test_without_a_stack_a_command_says_how_to_get_one(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    sentence = error_of(capsys, *arguments)
    assert "chronica up" in sentence
    assert "CHRONICA_POSTGRES_DSN" in sentence


def test_status_without_a_stack_is_not_ready(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("status", "--json") == 1
    captured = capsys.readouterr()
    assert captured.out == ('{"api":null,"kafka":null,"postgres":null,"ready":false,"lag":{}}\n')
    assert "chronica up" in captured.err


def test_a_setting_that_is_not_usable_is_named_and_its_value_is_not_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHRONICA_PORT", "s3cret")
    sentence = error_of(capsys, "up")
    assert "CHRONICA_PORT" in sentence
    assert "s3cret" not in sentence


@pytest.mark.parametrize("text", [None, "port = [", '{"port": }'])
def test_a_settings_file_that_cannot_be_read_is_named(
    text: str | None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    file = tmp_path / ("settings.json" if text and text.startswith("{") else "settings.toml")
    if text is not None:
        file.write_text(text)
    monkeypatch.setenv("CHRONICA_CONFIG", str(file))
    assert "CHRONICA_CONFIG" in error_of(capsys, "up")


def test_an_unknown_log_level_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHRONICA_LOG_LEVEL", "loud")
    assert "CHRONICA_LOG_LEVEL" in error_of(capsys, "migrate")


def test_a_postgres_that_is_away_is_one_sentence_without_its_password(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHRONICA_POSTGRES_DSN", "postgresql://me:s3cret@127.0.0.1:1/x")
    sentence = error_of(capsys, "migrate")
    assert "Nothing was changed" in sentence
    assert "s3cret" not in sentence


def test_an_empty_owner_is_refused_before_anything_is_looked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sentence = error_of(capsys, "import", "nowhere", "--format", "openai-chat", "--owner", "")
    assert "owner must not be empty" in sentence


def test_what_nobody_expected_is_still_a_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_settings: object) -> None:
        raise RuntimeError("a\x1b[31mb")

    monkeypatch.setattr("chronica.store.resolve", broken)
    sentence = error_of(capsys, "recorder")
    assert "unexpected" in sentence
    assert "\x1b" not in sentence


def test_options_come_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHRONICA_PORT", "1")
    assert load_settings(port=2).port == 2
    assert load_settings(port=None).port == 1


@pytest.mark.parametrize(
    ("dsn", "shown"),
    [
        ("postgresql://me:p%20w@db:5432/x", "postgresql://me:***@db:5432/x"),
        ("postgresql://me@db/x?password=pw&a=b", "postgresql://me@db/x?password=***&a=b"),
        ("host=db password=pw user=me", "host=db password=*** user=me"),
        (r"host=db password='p\' w' user=me", "host=db password=*** user=me"),
        ("postgresql://me@db/x", "postgresql://me@db/x"),
    ],
)
def test_passwords_are_not_shown(dsn: str, shown: str) -> None:
    assert hidden_password(dsn) == shown
