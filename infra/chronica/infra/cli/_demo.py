"""``chronica demo``: the whole path once, from append to context window, on a stack of its own."""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from chronica.acta import ActumKind, Chronicarius, ChronicumNotFoundError, random_id
from chronica.infra.settings import Settings

from ._logs import set_up_logging
from ._program import command
from ._sample import BOOKER, OWNER, STRANGER, sample_acta
from ._settings import DataDirOption, load_settings
from ._terminal import CommandError, errors, output
from ._views import window_table

if TYPE_CHECKING:
    from ._stack import Stack
    from ._stopping import Stop

__all__ = ["demo"]

_INTERRUPTED = 130
_LAST_N = 7


def demo(data_dir: DataDirOption = None) -> None:
    """Start everything, record a sample conversation, show a context window, stop everything.

    It has a data directory of its own (demo, inside the data directory of `chronica up`) and a
    free port, so that it never gets in the way of real data or of a stack that runs. Each run
    records a conversation of its own.

    Examples:
      chronica demo
      chronica demo --data-dir demo-data
    """
    from ._run import run_stack  # noqa: PLC0415  (heavy)

    set_up_logging()
    settings = load_settings(data_dir=data_dir)
    directory = settings.data_dir if data_dir is not None else settings.data_dir / "demo"
    settings = load_settings(data_dir=directory, host="127.0.0.1", port=0)
    console = output()
    chronicum_id = f"dinner-{random_id()[-8:]}"

    async def show(stack: Stack, _stop: Stop) -> None:
        await _converse(stack.settings, chronicum_id, console)

    if not asyncio.run(run_stack(settings, errors(), show)):
        raise typer.Exit(_INTERRUPTED)
    window = ("window", chronicum_id, "--owner", OWNER)
    for line in (
        f"\nAll stopped in order; the data is in {directory}. To look around in it:",
        f"  {command('up', '--data-dir', directory)}",
        f"  {command(*window, '--data-dir', directory)}",
    ):
        console.print(line, markup=False, soft_wrap=True)


async def _converse(settings: Settings, chronicum_id: str, console: Console) -> None:
    async with Chronicarius.connect(tenant=settings.tenant, settings=settings) as chronicarius:
        await _record(chronicarius, chronicum_id, console)
        await _refuse(chronicarius, chronicum_id, console)
        acta = await chronicarius.get_acta(
            OWNER,
            chronicum_id,
            last_n=_LAST_N,
            kinds=[ActumKind.MESSAGE, ActumKind.TOOL_REQUEST, ActumKind.TOOL_RESPONSE],
            whole_calls=True,
        )
    title = f"The context window of {BOOKER}: the last {_LAST_N} without thoughts, whole calls only"
    console.print()
    console.print(window_table(title, acta))
    console.print("Left out of it: the answer of call-1, because its request is further back.")


async def _record(chronicarius: Chronicarius, chronicum_id: str, console: Console) -> None:
    """Record the conversation, then one actum of it again with the same key."""
    times_ms = []
    stored = []
    acta = sample_acta(chronicum_id)
    for turn, actum in enumerate(acta, 1):
        begun = time.perf_counter()
        stored.append(await chronicarius.record_actum(OWNER, actum, idempotency_key=f"turn-{turn}"))
        times_ms.append((time.perf_counter() - begun) * 1000)
    console.print(
        f"[bold]Recorded[/] {len(stored)} acta of {len({a.actor for a in stored})} actors in "
        f"{chronicum_id}, through the log. From append to recorded answer: median "
        f"{statistics.median(times_ms):.1f} ms, slowest {max(times_ms):.1f} ms."
    )
    other = replace(acta[-1], content="Booked twice?")
    again = await chronicarius.record_actum(OWNER, other, idempotency_key=f"turn-{len(acta)}")
    chronicum = await chronicarius.get_chronicum(OWNER, chronicum_id)
    if again != stored[-1] or chronicum.last_seq != len(stored):
        raise CommandError("The retry was not taken for one: please report it.")
    console.print(
        f"[bold]Retried[/] the last one with the same key and other text: the answer is the first "
        f"actum (seq {again.seq}, id {again.id}); nothing changed."
    )


async def _refuse(chronicarius: Chronicarius, chronicum_id: str, console: Console) -> None:
    try:
        await chronicarius.get_acta(STRANGER, chronicum_id)
    except ChronicumNotFoundError as error:
        console.print(f"[bold]{STRANGER}[/], a stranger, asks for it and gets: {error}")
        return
    raise CommandError("A stranger saw the conversation: please report it.")
