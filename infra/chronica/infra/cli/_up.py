"""``chronica up``: everything in one process, until Ctrl-C."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from chronica.infra.settings import Settings

from ._logs import set_up_logging
from ._program import command
from ._settings import DataDirOption, HostOption, PortOption, hidden_password, load_settings
from ._terminal import errors, output

if TYPE_CHECKING:
    from ._stack import Stack
    from ._stopping import Stop

__all__ = ["up"]


def up(
    data_dir: DataDirOption = None,
    host: HostOption = None,
    port: PortOption = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1000,
            help="Partitions of each topic, pinned at the first start (default 8). They bound "
            "the recorders for the log's life.",
        ),
    ] = None,
) -> None:
    """Start Kafka, Postgres, a recorder and the API, and serve until Ctrl-C.

    Kafka and Postgres are embedded, unless CHRONICA_KAFKA_BOOTSTRAP_SERVERS and
    CHRONICA_POSTGRES_DSN point to others. The first Ctrl-C stops all in order, a second one
    hurries. The data is there at the next `up`.

    Examples:
      chronica up
      chronica up --data-dir /var/lib/fleet --port 9000
      chronica status            # in another terminal
    """
    from ._run import run_stack  # noqa: PLC0415  (heavy)

    set_up_logging()
    settings = load_settings(data_dir=data_dir, host=host, port=port, partitions=partitions)
    console = errors()

    async def serve(stack: Stack, stop: Stop) -> None:
        output().print(_table(stack))
        where = () if data_dir is None else ("--data-dir", data_dir)
        # Not the table's caption: that would break a long path, and it is there to be copied.
        output().print(
            f"{command('status', '--json', *where)} has the whole Postgres address.",
            markup=False,
            soft_wrap=True,
        )
        output().print("Serving. Ctrl-C stops all in order; the data is kept.")
        await stop.asked.wait()

    asyncio.run(run_stack(settings, console, serve, pinned_partitions=partitions))
    output().print(f"Stopped. {_kept(settings)}", markup=False, soft_wrap=True)


def _kept(settings: Settings) -> str:
    """Say where the data is when nothing runs any more."""
    directory = settings.data_dir.absolute()
    if settings.kafka_bootstrap_servers and settings.postgres_dsn is not None:
        return "The data is kept where it was, in the Kafka and the Postgres that are set."
    return f"The data is kept in {directory}."


def _table(stack: Stack) -> Table:
    settings = stack.settings
    assert settings.postgres_dsn is not None, "started"
    table = Table(title="Chronica", title_justify="left", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("API", stack.url)
    table.add_row("Kafka", settings.kafka_bootstrap_servers)
    table.add_row("Postgres", hidden_password(settings.postgres_dsn.get_secret_value()))
    table.add_row("Data", str(Path(settings.data_dir).absolute()))
    return table
