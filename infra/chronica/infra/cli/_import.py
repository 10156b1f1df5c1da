"""``chronica import``: recorded conversations from a file into the log."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from chronica.acta import ActumKind, ChronicaError, dump_json, validate_owner
from chronica.infra.settings import Settings

from ._importer import Importer, Summary
from ._logs import set_up_logging
from ._running import resolved
from ._settings import DataDirOption, TenantOption, load_settings
from ._source import Source, UnreadableError, opened
from ._stopping import stop_on_signals
from ._terminal import CommandError, counted_acta, errors, note, output, write_out

__all__ = ["import_file"]

_DECISION_WAIT_S = 60.0


class FileFormat(StrEnum):
    """What `chronica import` reads."""

    OPENAI_CHAT = "openai-chat"


def import_file(
    *,
    file: Annotated[
        Path, typer.Argument(help="JSON lines, plain or gzip; - reads standard input.")
    ],
    file_format: Annotated[FileFormat, typer.Option("--format", help="What each line is.")],
    owner: Annotated[str, typer.Option(help="Who owns the chronica, and speaks as the user.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="For machines: recorded, duplicate, refused, empty.")
    ] = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Record the conversations of a file; importing it again records nothing twice.

    Each line of openai-chat is one message, in the order it was said:
      {"conversation": "dinner", "role": "user", "content": "A table for four."}

    What becomes of it:
      conversation  the chronicum of that id
      index         its number in the conversation; without: counted from 0 on
      role          system: message by "system"; user: message by the owner;
                    assistant: message by "assistant"; tool: tool response
      content       text, a list of parts, or null; without any: no message
      tool_calls    an assistant's: a tool request each, after its message
      tool_call_id  a tool's: which call it answers
      name          a tool's: who answers; without: the name in the call

    Each actum's key is conversation/index/part: part 0 is the content, the tool calls are 1, 2 and
    so on. A bad line is reported with its number and counted as refused, and the rest goes on; the
    exit code is 1 if anything was refused. A message that makes no actum is counted as empty.
    Without index, add to the end only: a line put in before others would change their numbers.

    Examples:
      chronica import chats.jsonl.gz --format openai-chat --owner ardian
      chronica import chats.jsonl --format openai-chat --owner ardian --json
      cat chats.jsonl | chronica import - --format openai-chat --owner ardian
    """
    assert file_format is FileFormat.OPENAI_CHAT, "the only one"
    set_up_logging()
    validate_owner(owner)
    settings = resolved(load_settings(data_dir=data_dir, tenant=tenant))
    try:
        with opened(file) as source:
            summary = asyncio.run(_import(settings, source, owner))
    except UnreadableError as error:
        raise CommandError(f"{error}: nothing was imported; mend or fetch it first.") from error
    for refusal in summary.refusals:
        note(refusal)
    if summary.refused > len(summary.refusals):
        note(f"… and {summary.refused - len(summary.refusals):,} more refused.")
    if as_json:
        facts = ("duplicate", "refused", "empty")
        counts = {name: getattr(summary, name) for name in facts}
        write_out(dump_json({"recorded": summary.recorded.total(), **counts}))
    else:
        output().print(_table(summary))
    if summary.refused:
        raise typer.Exit(1)


async def _import(settings: Settings, source: Source, owner: str) -> Summary:
    from chronica.store import connect  # noqa: PLC0415  (heavy)

    columns = (TextColumn("Importing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = errors()
    with stop_on_signals() as stop:
        async with connect(
            tenant=settings.tenant, settings=settings, decision_wait_s=_DECISION_WAIT_S
        ) as store:
            importer = Importer(store, owner)
            with Progress(
                *columns, console=console, transient=True, disable=not console.is_terminal
            ) as progress:
                bar = progress.add_task("", total=source.lines_total)
                running = asyncio.ensure_future(importer.run(source, lambda: progress.advance(bar)))
                asked = asyncio.ensure_future(stop.asked.wait())
                await asyncio.wait([running, asked], return_when=asyncio.FIRST_COMPLETED)
                interrupted = not running.done()
                asked.cancel()
                running.cancel()
                try:
                    await running
                except asyncio.CancelledError:
                    assert interrupted, "nobody else cancels it"
                    raise _stopped("The import was interrupted", importer.summary) from None
                except (ChronicaError, UnreadableError) as error:
                    raise _stopped(str(error).rstrip("."), importer.summary) from error
    return importer.summary


def _stopped(why: str, summary: Summary) -> CommandError:
    recorded = summary.recorded.total()
    return CommandError(
        f"{why}. {counted_acta(recorded)} {'was' if recorded == 1 else 'were'} recorded until then "
        "and kept: run the same command again, it records only what is missing."
    )


def _table(summary: Summary) -> Table:
    chronica = len(summary.chronica)
    title = f"{chronica:,} {'chronicum' if chronica == 1 else 'chronica'}"
    table = Table(title=title, title_justify="left")
    table.add_column("acta")
    table.add_column("count", justify="right")
    for kind in ActumKind:
        if summary.recorded[kind]:
            table.add_row(f"  {kind}", f"{summary.recorded[kind]:,}")
    for name, count in (
        ("recorded", summary.recorded.total()),
        ("duplicate", summary.duplicate),
        ("refused", summary.refused),
        ("empty", summary.empty),
    ):
        table.add_row(name, f"{count:,}")
    return table
