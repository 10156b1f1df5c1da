"""``chronica import``: recorded conversations from a file into the log."""

from __future__ import annotations

import asyncio
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, BinaryIO

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from chronica.acta import ActumKind, ChronicaError, dump_json, validate_owner
from chronica.infra.settings import Settings

from ._importer import Importer, Summary
from ._logs import set_up_logging
from ._settings import DataDirOption, TenantOption, load_settings
from ._stopping import stop_on_signals
from ._terminal import CommandError, errors, output, printable, write_out

__all__ = ["import_file", "opened"]

_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_DECISION_WAIT_S = 60.0


class FileFormat(StrEnum):
    """What `chronica import` reads."""

    OPENAI_CHAT = "openai-chat"


def import_file(
    *,
    file: Annotated[Path, typer.Argument(help="JSON lines, plain or gzip.")],
    file_format: Annotated[FileFormat, typer.Option("--format", help="What each line is.")],
    owner: Annotated[str, typer.Option(help="Who owns the chronica, and speaks as the user.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="For machines: recorded, duplicate, refused.")
    ] = False,
    tenant: TenantOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Record the conversations of a file; importing it again records nothing twice.

    A conversation becomes the chronicum of the same id. Each actum's key is conversation, index
    and part. A bad line is reported with its number and counted as refused, and the rest goes on;
    the exit code is 1 if anything was refused.

    Examples:
      chronica import chats.jsonl.gz --format openai-chat --owner ardian
      chronica import chats.jsonl --format openai-chat --owner ardian --json
    """
    from chronica.store import resolve  # noqa: PLC0415  (heavy)

    assert file_format is FileFormat.OPENAI_CHAT, "the only one"
    set_up_logging()
    validate_owner(owner)
    settings = resolve(load_settings(data_dir=data_dir, tenant=tenant))
    lines_total = _count_lines(file)
    summary = asyncio.run(_import(settings, file, owner, lines_total))
    for refusal in summary.refusals:
        errors().print(printable(refusal), markup=False, soft_wrap=True)
    if summary.refused > len(summary.refusals):
        errors().print(f"… and {summary.refused - len(summary.refusals):,} more refused.")
    if as_json:
        recorded = summary.recorded.total()
        counts = {"recorded": recorded, "duplicate": summary.duplicate, "refused": summary.refused}
        write_out(dump_json(counts))
    else:
        output().print(_table(summary))
    if summary.refused:
        raise typer.Exit(1)


async def _import(settings: Settings, file: Path, owner: str, lines_total: int) -> Summary:
    from chronica.store import connect  # noqa: PLC0415  (heavy)

    columns = (TextColumn("Importing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = errors()
    with stop_on_signals() as stop:
        async with connect(
            tenant=settings.tenant, settings=settings, decision_wait_s=_DECISION_WAIT_S
        ) as store:
            importer = Importer(store, owner)
            with (
                opened(file) as lines,
                Progress(
                    *columns, console=console, transient=True, disable=not console.is_terminal
                ) as progress,
            ):
                bar = progress.add_task("", total=lines_total)
                running = asyncio.ensure_future(importer.run(lines, lambda: progress.advance(bar)))
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
                except ChronicaError as error:
                    raise _stopped(str(error).rstrip("."), importer.summary) from error
    return importer.summary


def _stopped(why: str, summary: Summary) -> CommandError:
    return CommandError(
        f"{why}. {summary.recorded.total():,} acta were recorded until then and are kept: run the "
        "same command again, it records only what is missing."
    )


def _count_lines(file: Path) -> int:
    """Read the whole file once, so that a damaged one is refused before anything is recorded."""
    try:
        with opened(file) as lines:
            return sum(1 for _line in lines)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise CommandError(
            f"{file} is damaged ({error}): nothing was imported; fetch it again."
        ) from error
    except OSError as error:
        raise CommandError(
            f"{file} can't be read ({error.strerror or error}): nothing was imported."
        ) from error


@contextmanager
def opened(file: Path) -> Iterator[Iterator[bytes]]:
    """Open a file of lines; gzip is known by its first bytes, not by the file's name."""
    with file.open("rb") as raw:
        packed = raw.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
        raw.seek(0)
        stream: BinaryIO | io.BufferedReader = raw
        if packed:
            stream = io.BufferedReader(gzip.GzipFile(fileobj=raw))
        yield _lines(stream)


def _lines(stream: BinaryIO | io.BufferedReader) -> Iterator[bytes]:
    for number, line in enumerate(stream):
        yield line.removeprefix(_BYTE_ORDER_MARK) if number == 0 else line


def _table(summary: Summary) -> Table:
    table = Table(title=f"{len(summary.chronica):,} chronica", title_justify="left")
    table.add_column("acta")
    table.add_column("count", justify="right")
    for kind in ActumKind:
        if summary.recorded[kind]:
            table.add_row(f"  {kind}", f"{summary.recorded[kind]:,}")
    table.add_row("recorded", f"{summary.recorded.total():,}")
    table.add_row("duplicate", f"{summary.duplicate:,}")
    table.add_row("refused", f"{summary.refused:,}")
    return table
