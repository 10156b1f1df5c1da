"""The data directory: held by one, found by others, refused in one sentence."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from chronica.infra.embedded import (
    DataDir,
    DataDirError,
    DataDirInUseError,
    DiskFullError,
    PlatformError,
    RunningStack,
    ServerAccountError,
    _account,
    _files,
    _place,
    read_running,
)

STACK = RunningStack(pid=os.getpid(), api=None, kafka="127.0.0.1:1", postgres="postgresql://x")


def is_one_sentence(error: BaseException) -> bool:
    text = str(error)
    return text[0].isupper() | text.startswith("/") and text.endswith(".") and "\n" not in text


def test_a_data_directory_is_held_by_one(tmp_path: Path) -> None:
    first, second = DataDir(tmp_path / "data"), DataDir(tmp_path / "data")
    with first:
        assert first.path.stat().st_mode & 0o007 == 0
        with pytest.raises(DataDirInUseError, match=f"process {os.getpid()}") as refusal:
            second.open()
        assert is_one_sentence(refusal.value)
    with second:
        pass


def test_others_find_the_stack_while_it_runs(tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path / "data")
    assert read_running(data_dir.path) is None
    with data_dir:
        assert read_running(data_dir.path) is None
        data_dir.publish(STACK)
        assert read_running(data_dir.path) == STACK
        assert (data_dir.path / "stack.json").stat().st_mode & 0o777 == 0o600
    assert read_running(data_dir.path) is None
    assert not (data_dir.path / "stack.json").exists()


def test_the_note_of_a_killed_stack_does_not_count(tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path / "data")
    with data_dir:
        data_dir.publish(STACK)
        note = (data_dir.path / "stack.json").read_text()
    (data_dir.path / "stack.json").write_text(note)
    assert read_running(data_dir.path) is None
    with data_dir:
        assert read_running(data_dir.path) is None


@pytest.mark.parametrize("note", ["", "{", "[]", '{"pid": 1, "of": "another version"}'])
def test_a_note_that_cannot_be_read_is_none(tmp_path: Path, note: str) -> None:
    with DataDir(tmp_path / "data") as data_dir:
        (data_dir.path / "stack.json").write_text(note)
        assert read_running(data_dir.path) is None


def test_too_little_space_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=5 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(DiskFullError, match="Only 5 MiB are free") as refusal:
        DataDir(tmp_path / "data").open()
    assert is_one_sentence(refusal.value)


def test_a_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskFullError, match="disk is full") as refusal:
        _files.write_atomically(tmp_path / "note", "text")
    assert is_one_sentence(refusal.value)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_of_another_user_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 424242)
    with pytest.raises(DataDirError, match=r"belongs to user .* runs as 424242") as refusal:
        DataDir(tmp_path).open()
    assert is_one_sentence(refusal.value)


def test_a_directory_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(DataDirError, match="can't be written") as refusal:
        DataDir(tmp_path).open()
    assert is_one_sentence(refusal.value)


@pytest.mark.parametrize("below", ["file", "file/data"])
def test_a_file_in_the_place_of_the_directory_is_one_sentence(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataDirError, match="choose another data directory") as refusal:
        DataDir(tmp_path / below).open()
    assert is_one_sentence(refusal.value)


def test_the_mode_of_a_directory_with_things_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "something").touch()
    tmp_path.chmod(0o755)
    with DataDir(tmp_path):
        assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_windows_is_refused_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(PlatformError, match="use WSL") as refusal:
        DataDir(tmp_path).open()
    assert is_one_sentence(refusal.value)


def test_no_account_for_postgres_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(_account, "_find", lambda: None)
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(ServerAccountError, match="useradd is not installed") as refusal:
        _account.server_account()
    assert is_one_sentence(refusal.value)


def test_a_note_that_names_a_strange_place_is_refused(tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path)
    data_dir.postgres.mkdir()
    victim = tmp_path / "victim"
    victim.mkdir()
    (data_dir.postgres / "place").write_text(f"{victim}\n")
    with pytest.raises(DataDirError, match="not in /var/lib/chronica"):
        _place.noted_place(data_dir.postgres)
    with pytest.raises(DataDirError):
        data_dir.remove()
    assert victim.exists()


def test_the_note_has_the_names_that_others_read(tmp_path: Path) -> None:
    with DataDir(tmp_path / "data") as data_dir:
        data_dir.publish(STACK)
        note = json.loads((data_dir.path / "stack.json").read_text())
    assert set(note) == {"pid", "api", "kafka", "postgres"}
