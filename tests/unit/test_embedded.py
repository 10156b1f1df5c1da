"""Kafka's jars are pinned, fetched once and verified; the servers' ports stay the same."""

from __future__ import annotations

import hashlib
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests
from jgo.maven import PythonResolver

from chronica.infra.embedded import (
    JarChecksumError,
    JarsUnavailableError,
    PortTakenError,
    StartError,
    _jars,
    ensure_jars,
)
from chronica.infra.embedded._ports import LOOPBACK, PortBook, free_port


def is_one_sentence(error: BaseException) -> bool:
    text = str(error)
    return text[0].isupper() | text.startswith("/") and text.endswith(".") and "\n" not in text


@pytest.fixture
def two_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[_jars.Jar]:
    """A lock of two small jars, and an empty cache."""
    jars = [
        _jars.Jar(f"org.example:{name}:1.0", hashlib.sha256(name.encode()).hexdigest(), len(name))
        for name in ("one", "two")
    ]
    monkeypatch.setattr(_jars, "read_lock", lambda: jars)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return jars


def serve(monkeypatch: pytest.MonkeyPatch, content: Callable[[str], bytes]) -> list[str]:
    """Let downloads bring what ``content`` makes of the artifact's name; returns their log."""
    asked: list[str] = []

    def download(self: PythonResolver, artifact: Any) -> Path:
        asked.append(artifact.artifactId)
        path: Path = artifact.cached_path
        path.parent.mkdir(parents=True)
        path.write_bytes(content(artifact.artifactId))
        return path

    monkeypatch.setattr(PythonResolver, "download", download)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    return asked


def test_every_jar_is_pinned_once() -> None:
    jars = _jars.read_lock()
    assert len({jar.coordinates for jar in jars}) == len(jars)
    assert "org.apache.kafka:kafka_2.13:4.3.1" in {jar.coordinates for jar in jars}
    assert all(len(jar.sha256) == 64 and jar.size_bytes > 0 for jar in jars)
    assert "//" not in _jars.LOCK_PATH.read_text()


def test_jars_are_fetched_once(two_jars: list[_jars.Jar], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = serve(monkeypatch, str.encode)
    paths = ensure_jars()
    assert [path.read_bytes() for path in paths] == [b"one", b"two"]
    assert ensure_jars() == paths
    assert sorted(asked) == ["one", "two"]
    assert sorted(_jars.cache_directory().iterdir()) == sorted(paths)


def test_a_damaged_jar_is_fetched_again(
    two_jars: list[_jars.Jar], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = serve(monkeypatch, str.encode)
    ensure_jars()[1].write_bytes(b"damaged")
    assert [path.read_bytes() for path in ensure_jars()] == [b"one", b"two"]
    assert sorted(asked) == ["one", "two", "two"]


def test_another_jar_than_the_pinned_one_is_refused(
    two_jars: list[_jars.Jar], monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(monkeypatch, lambda name: b"other")
    with pytest.raises(JarChecksumError, match="not the pinned one") as refusal:
        ensure_jars()
    assert is_one_sentence(refusal.value)
    assert list(_jars.cache_directory().iterdir()) == []


@pytest.mark.parametrize(
    ("failure", "tries"),
    [(requests.ConnectionError("https://host.example/x"), 3), (RuntimeError("not found"), 1)],
)
def test_no_jars_to_be_had_is_one_sentence(
    two_jars: list[_jars.Jar], monkeypatch: pytest.MonkeyPatch, failure: Exception, tries: int
) -> None:
    monkeypatch.setattr(_jars, "read_lock", lambda: two_jars[:1])
    asked = []

    def refuse(self: PythonResolver, artifact: Any) -> Path:
        asked.append(artifact)
        raise failure

    serve(monkeypatch, str.encode)
    monkeypatch.setattr(PythonResolver, "download", refuse)
    with pytest.raises(JarsUnavailableError, match="can't be fetched from Maven Central") as said:
        ensure_jars()
    assert is_one_sentence(said.value)
    assert "://" not in str(said.value)
    assert len(asked) == tries


def test_a_cache_that_cannot_be_written_is_one_sentence(
    two_jars: list[_jars.Jar], tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("a file where a directory should be")
    with pytest.raises(StartError, match=r"XDG_CACHE_HOME|verified") as refusal:
        ensure_jars()
    assert is_one_sentence(refusal.value)


def test_ports_stay_the_same(tmp_path: Path) -> None:
    book = PortBook(tmp_path / "ports.json")
    first = book.choose({"a": None, "b": None})
    assert len(set(first.values())) == 2
    assert book.choose({"a": None, "b": None}) == first


def test_a_noted_port_that_another_process_has_by_now_is_replaced(tmp_path: Path) -> None:
    book = PortBook(tmp_path / "ports.json")
    first = book.choose({"a": None})["a"]
    with socket.create_server((LOOPBACK, first)):
        second = book.choose({"a": None})["a"]
    assert second != first
    assert book.choose({"a": None}) == {"a": second}


def test_a_wanted_port_that_is_taken_is_one_sentence(tmp_path: Path) -> None:
    book = PortBook(tmp_path / "ports.json")
    port = free_port()
    with (
        socket.create_server((LOOPBACK, port)),
        pytest.raises(PortTakenError, match=f"Port {port} .* is taken") as refusal,
    ):
        book.choose({"a": port})
    assert is_one_sentence(refusal.value)
    assert book.choose({"a": port}) == {"a": port}


def test_a_damaged_note_of_ports_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "ports.json").write_text('["torn')
    assert PortBook(tmp_path / "ports.json").choose({"a": None})["a"] > 0
