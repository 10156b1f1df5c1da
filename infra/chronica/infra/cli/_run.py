"""A stack around some work: started before it, stopped after it, whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from rich.console import Console

from chronica.infra.settings import Settings

from ._stack import Stack
from ._stopping import Stop, stop_on_signals
from ._terminal import busy

__all__ = ["run_stack"]


async def run_stack(
    settings: Settings,
    console: Console,
    work: Callable[[Stack, Stop], Coroutine[Any, Any, None]],
    *,
    pinned_partitions: int | None = None,
) -> bool:
    """Start a stack, do the work while all parts live, and stop all in order, whatever happens.

    Returns:
        Whether the work was finished; False when a signal came before.

    Raises:
        StartError and its like: a part can't start, or is gone for good.
    """
    with stop_on_signals() as stop:
        stack = Stack(settings, console)
        try:
            start = stack.start(pinned_partitions=pinned_partitions)
            if not await _first(start, stop.asked.wait()):
                return False
            return await _first(work(stack, stop), stack.keep(), stop.asked.wait())
        finally:
            if stack.started:
                with busy(console, "Stopping in order; Ctrl-C again hurries."):
                    await stack.stop(stop)


async def _first(work: Coroutine[Any, Any, None], *others: Coroutine[Any, Any, Any]) -> bool:
    """Wait for the first to end, cancel the others, and tell whether it was the work."""
    tasks = [asyncio.ensure_future(each) for each in (work, *others)]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        return tasks[0] in done
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
