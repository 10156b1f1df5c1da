"""Batches that aiokafka would not read: read all the same (rule 3.6, decision 0009).

Kafka takes any bytes as a header's name, and aiokafka decodes them strictly: one such record, and
its whole batch can't be read, for ever, by whoever comes. So aiokafka's fetcher is given records
that are read as it reads them and, where that fails on a name, once more by its own pure Python
reader with what is not UTF-8 in a name escaped (``surrogateescape``). A batch that can't be read at
all (the broker takes one with bytes behind its compressed data) becomes one record that holds its
bytes, and so a dead letter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from aiokafka.consumer import fetcher
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import MemoryRecords, _MemoryRecordsPy

__all__ = ["LenientRecords", "install"]


class _LenientBytes(bytearray):
    """The bytes of a batch; any text in them can be decoded."""

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return _LenientBytes(found) if isinstance(index, slice) else found

    def decode(self, encoding: str = "utf-8", errors: str = "surrogateescape") -> str:
        return super().decode(encoding, errors)


@dataclass(frozen=True, slots=True)
class UndecodableRecord:
    """A whole batch as one record of aiokafka's; its value is no JSON, so it is a dead letter."""

    offset: int
    timestamp: int
    timestamp_type: int
    value: bytes
    headers: tuple[tuple[str, bytes], ...]
    key: None = None
    checksum: None = None


def _raw(data: bytes, number: int) -> memoryview:
    """Return the bytes of a batch, by its number in the data."""
    records = _MemoryRecordsPy(data)
    for _ in range(number):
        records.next_batch()
    raw: memoryview | None = records._next_slice  # noqa: SLF001  (there is no way in between)
    assert raw is not None, "the batch was read before"
    return raw


def _decoded_again(data: bytes, number: int) -> list[Any]:
    """Return the records of a batch, by its number in the data, read leniently."""
    batch = _DefaultRecordBatchPy(_raw(data, number))
    batch._maybe_uncompress()  # noqa: SLF001
    batch._buffer = _LenientBytes(batch._buffer)  # noqa: SLF001
    return list(batch)


class _Batch:
    """A batch as aiokafka's fetcher uses it."""

    def __init__(self, batch: Any, data: bytes, number: int) -> None:
        self._batch = batch
        self._data = data
        self._number = number

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __next__(self) -> Any:
        return next(self._batch)

    def __iter__(self) -> Iterator[Any]:
        try:
            try:
                return iter(list(self._batch))
            except UnicodeDecodeError:
                return iter(_decoded_again(self._data, self._number))
        except Exception as error:  # noqa: BLE001  (each codec has errors of its own)
            return iter([self._undecodable(error)])

    def _undecodable(self, error: Exception) -> UndecodableRecord:
        batch = self._batch
        why = f"{type(error).__name__}: {error}".encode()
        return UndecodableRecord(
            offset=batch.base_offset,
            timestamp=batch.max_timestamp,
            timestamp_type=batch.timestamp_type,
            value=bytes(_raw(self._data, self._number)),
            headers=(("chronica-undecodable-batch", why),),
        )


class LenientRecords:
    """What a fetch brought, as aiokafka's ``MemoryRecords``."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._records = MemoryRecords(data)
        self._given = 0

    def size_in_bytes(self) -> int:
        """Return how many bytes the fetch brought."""
        return int(self._records.size_in_bytes())

    def has_next(self) -> bool:
        """Say whether there is another batch."""
        return bool(self._records.has_next())

    def next_batch(self) -> Any:
        """Return the next batch."""
        batch = _Batch(self._records.next_batch(), self._data, self._given)
        self._given += 1
        return batch


def install() -> None:
    """Let every consumer of this process read leniently; harmless to repeat."""
    fetcher.MemoryRecords = LenientRecords
