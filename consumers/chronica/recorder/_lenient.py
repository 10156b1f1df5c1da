"""Header names that are no UTF-8: read like any others (rule 3.6, decision 0009).

Kafka takes any bytes as a header's name, and aiokafka decodes them strictly: one such record, and
its whole batch can't be read, for ever, by whoever comes. So aiokafka's fetcher is given records
that are read as it reads them and, where that fails on a name, once more by its own pure Python
reader with what is not UTF-8 in a name escaped (``surrogateescape``).
"""

from __future__ import annotations

from collections.abc import Iterator
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


def _decoded_again(data: bytes, number: int) -> Iterator[Any]:
    """Return the records of a batch, by its number in the data, read leniently."""
    records = _MemoryRecordsPy(data)
    for _ in range(number):
        records.next_batch()
    raw = records._next_slice  # noqa: SLF001  (there is no way in between)
    assert raw is not None, "the batch was read before"
    batch = _DefaultRecordBatchPy(raw)
    batch._maybe_uncompress()  # noqa: SLF001
    batch._buffer = _LenientBytes(batch._buffer)  # noqa: SLF001
    return iter(list(batch))


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
            return iter(list(self._batch))
        except UnicodeDecodeError:
            return _decoded_again(self._data, self._number)


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
