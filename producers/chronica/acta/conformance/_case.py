"""What all suites share: the hook that opens a store, ids of their own, and small helpers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, Generic, TypeVar

from chronica.acta._chronicarius import Chronicarius
from chronica.acta._errors import ChronicumNotFoundError
from chronica.acta._ids import random_id
from chronica.acta._models import ActorKind, Actum, ActumKind
from chronica.acta._ports import Store

__all__ = ["Caught", "StoreCase", "actum", "contents", "gathered", "raises"]

ErrorT = TypeVar("ErrorT", bound=BaseException)
ResultT = TypeVar("ResultT")


class StoreCase:
    """The base of every suite. Override ``open_store``; ``new_id`` only if you must."""

    def open_store(self) -> AbstractAsyncContextManager[Any]:
        """Return an async context manager that yields the store under test."""
        raise NotImplementedError(
            f"{type(self).__name__} must override open_store(): return an async context manager "
            "that yields your store."
        )

    def new_id(self) -> str:
        """Return an id that no test has used before, in a shared store neither."""
        return random_id()

    @asynccontextmanager
    async def open_chronicarius(self) -> AsyncIterator[Chronicarius]:
        """Open the store under test and put a Chronicarius before it."""
        async with self.open_store() as store:
            yield Chronicarius(store)

    async def assert_nothing_was_created(self, store: Store, chronicum_id: str) -> None:
        """Assert that no chronicum has this id."""
        with raises(ChronicumNotFoundError):
            await store.get(chronicum_id)


class Caught(Generic[ErrorT]):
    """Holds the error that a ``with raises(...)`` block ended with."""

    error: ErrorT


@contextmanager
def raises(expected: type[ErrorT]) -> Iterator[Caught[ErrorT]]:
    """Assert that the block raises an error of this type; pytest is not needed for it."""
    caught: Caught[ErrorT] = Caught()
    try:
        yield caught
    except expected as error:
        caught.error = error
    else:
        raise AssertionError(f"{expected.__name__} was not raised")


def actum(chronicum_id: str, content: str = "hello", **fields: Any) -> Actum:
    """Return a valid actum with an id of its own; any field can be given."""
    defaults: dict[str, Any] = {
        "kind": ActumKind.MESSAGE,
        "actor_kind": ActorKind.HUMAN,
        "actor": "ardian",
        "id": random_id(),
    }
    return Actum(chronicum_id=chronicum_id, content=content, **(defaults | fields))


def contents(acta: Iterable[Actum]) -> list[str]:
    """Return the contents of some acta, in order."""
    return [each.content for each in acta]


async def gathered(
    calls: Iterable[Coroutine[Any, Any, ResultT]], expected: type[ErrorT]
) -> tuple[list[ResultT], list[ErrorT]]:
    """Run calls at the same time; return their results and their errors of the expected type."""
    results: list[ResultT] = []
    errors: list[ErrorT] = []
    for outcome in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(outcome, expected):
            errors.append(outcome)
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            results.append(outcome)
    return results, errors
