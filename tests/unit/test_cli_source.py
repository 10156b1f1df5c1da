"""What is imported from: files, packed or not, and what can be read only once."""

from __future__ import annotations

import asyncio
import gzip
import os
import threading
import time
from pathlib import Path

import pytest

from chronica.infra.cli._source import STANDARD_INPUT, Source, UnreadableError, opened

TEXT = b"\xef\xbb\xbf" + b"one\n" + b"two\n" * 1000


async def lines_of(source: Source) -> list[bytes]:
    return [line async for line in source]


@pytest.mark.parametrize("packed", [False, True])
def test_files_are_read_plain_or_packed_whatever_they_are_called(
    packed: bool, tmp_path: Path
) -> None:
    file = tmp_path / "chats"
    file.write_bytes(gzip.compress(TEXT) if packed else TEXT)
    with opened(file) as source:
        assert source.lines_total == 1001
        assert asyncio.run(lines_of(source)) == [b"one\n", *[b"two\n"] * 1000]


@pytest.mark.parametrize("packed", [False, True])
def test_a_pipe_is_read_once_and_nobody_knows_how_long_it_is(packed: bool, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(
        target=pipe.write_bytes, args=(gzip.compress(TEXT) if packed else TEXT,)
    )
    writer.start()
    with opened(pipe) as source:
        assert source.lines_total is None
        assert asyncio.run(lines_of(source)) == [b"one\n", *[b"two\n"] * 1000]
    writer.join()


def test_standard_input_is_read_and_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"a\nb")
    os.close(writing)
    monkeypatch.setattr(os, "dup", lambda _descriptor, dup=os.dup: dup(reading))
    with opened(STANDARD_INPUT) as source:
        assert asyncio.run(lines_of(source)) == [b"a\n", b"b"]
    os.fstat(reading)
    os.close(reading)


def test_who_waits_for_a_pipe_can_be_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"a\n")
    monkeypatch.setattr(os, "dup", lambda _descriptor, dup=os.dup: dup(reading))

    async def interrupted(source: Source) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(lines_of(source), 0.1)

    begun = time.monotonic()
    with opened(STANDARD_INPUT) as source:
        asyncio.run(interrupted(source))
    assert time.monotonic() - begun < 5, "though the other end is still open"
    os.close(reading)
    os.close(writing)


def test_a_damaged_file_is_refused_before_its_first_line(tmp_path: Path) -> None:
    file = tmp_path / "cut.gz"
    file.write_bytes(gzip.compress(TEXT)[:-5])
    with pytest.raises(UnreadableError, match="is damaged"), opened(file):
        pytest.fail("opened")


@pytest.mark.parametrize("name", ["", "nowhere"])
def test_what_cannot_be_opened_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="can't be read"), opened(tmp_path / name):
        pytest.fail("opened")
