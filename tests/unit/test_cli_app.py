"""The command line without servers: help, settings, and errors that are one sentence."""

from __future__ import annotations

import io
import logging
import os
import re
import socket
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from chronica.infra.cli import main
from chronica.infra.cli._logs import set_up_logging
from chronica.infra.cli._openai_chat import ChatMapping
from chronica.infra.cli._settings import hidden_password, load_settings
from chronica.infra.cli._terminal import counted_acta
from chronica.infra.embedded import DataDir, RunningStack

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


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("s.toml", None, "CHRONICA_CONFIG names {file}, which is not a file: "),
        ("s.toml", "\nport = [", "The settings file {file}, line 2, is not usable TOML ("),
        ("s.toml", 'port = 1\nhost = "x', "The settings file {file}, line 2, is not usable TOML ("),
        ("s.json", '{"port":\n}', "The settings file {file}, line 2, is not usable JSON ("),
        ("s.json", "[1]", "The settings file {file} is not usable JSON (no table of settings): "),
        ("s.toml", 'port = "s3cret"', "The setting `port` in {file} is not usable: "),
        ("s.toml", "prot = 3", "The setting `prot` in {file} is not known: "),
    ],
)
def test_what_is_wrong_with_a_settings_file_is_said_once(
    name: str,
    text: str | None,
    says: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    file = tmp_path / name
    if text is not None:
        file.write_text(text)
    monkeypatch.setenv("CHRONICA_CONFIG", str(file))
    sentence = error_of(capsys, "up")
    assert sentence.startswith(f"Error: {says.format(file=file)}")
    assert "s3cret" not in sentence
    assert "CHRONICA_PORT" not in sentence, "the file is to blame"
    assert sentence.count(str(file)) == 1


@pytest.mark.parametrize("arguments", [("--port", "{taken}"), ("--host", "192.0.2.1")])
def test_an_address_that_cannot_be_bound_is_refused_before_anything_is_made(
    arguments: tuple[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        error_of(capsys, "up", *(each.format(taken=port) for each in arguments))
    assert not (tmp_path / "data").exists()


def test_a_second_up_is_told_of_the_first_and_not_of_its_port(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, DataDir(tmp_path / "data") as data_dir:
        port = taken.getsockname()[1]
        data_dir.publish(RunningStack(pid=os.getpid(), api=None, kafka="k:1", postgres="host=p"))
        assert "is in use by process" in error_of(capsys, "up", "--port", str(port))


def test_import_help_says_what_a_line_looks_like(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("import", "--help") == 0
    shown = capsys.readouterr().out
    (example,) = re.findall(r"^ *(\{.*\}) *$", shown, re.MULTILINE)
    (keyed,) = ChatMapping("ardian").acta(example)
    assert keyed.key == "dinner/0/0"
    for field in ("conversation", "index", "role", "content", "tool_calls", "tool_call_id", "name"):
        assert re.search(rf"^ *{field}  ", shown, re.MULTILINE), field


def test_log_lines_come_above_what_rich_draws(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    set_up_logging()
    drawn = io.StringIO()
    monkeypatch.setattr(sys, "stderr", drawn)
    logging.getLogger("chronica.up").warning("Postgres ended")
    assert drawn.getvalue().endswith("WARNING chronica.up Postgres ended\n")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("count", "shown"), [(0, "0 acta"), (1, "1 actum"), (1200, "1,200 acta")])
def test_one_is_an_actum(count: int, shown: str) -> None:
    assert counted_acta(count) == shown


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
    monkeypatch.setenv("CHRONICA_KAFKA_BOOTSTRAP_SERVERS", "k:1")
    monkeypatch.setenv("CHRONICA_POSTGRES_DSN", "host=p")
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
