"""``chronica recorder`` and ``chronica migrate``: the parts a deployment runs one by one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from chronica.infra.settings import Settings

from ._logs import set_up_logging
from ._running import postgres_dsn, resolved
from ._settings import DataDirOption, load_settings
from ._stopping import Stop, stop_on_signals
from ._terminal import CommandError, output

if TYPE_CHECKING:
    from chronica.recorder import Recorder

__all__ = ["migrate", "record_until", "recorder", "tell_partitions"]

_log = logging.getLogger("chronica.recorder")

_STOP_WITHIN_S = 4.5


def recorder(data_dir: DataDirOption = None) -> None:
    """Run one recorder until Ctrl-C or SIGTERM.

    Recorders share the partitions of the log evenly: start as many as you like, up to the number
    of partitions. Kafka or Postgres away is waited out, and the log says so.

    Examples:
      chronica recorder                # for the stack that runs in .chronica
      CHRONICA_CONFIG=chronica.toml chronica recorder
    """
    set_up_logging("INFO")
    settings = resolved(load_settings(data_dir=data_dir))
    asyncio.run(_run(settings))


def migrate(data_dir: DataDirOption = None) -> None:
    """Bring the Postgres database to the schema that this version needs.

    Safe to run again, and to run twice at once. `chronica up` does it by itself.

    Examples:
      chronica migrate                 # for the stack that runs in .chronica
      CHRONICA_POSTGRES_DSN=postgresql://me@db/chronica chronica migrate
    """
    # Heavy, like those above.
    from chronica.projections import PostgresUnavailableError  # noqa: PLC0415
    from chronica.projections import migrate as run_migrations  # noqa: PLC0415

    set_up_logging()
    dsn = postgres_dsn(load_settings(data_dir=data_dir))
    try:
        revision = run_migrations(dsn)
    except PostgresUnavailableError as error:
        raise CommandError(
            f"{' '.join(str(error).split())}: start it, or mend CHRONICA_POSTGRES_DSN. Nothing was "
            "changed."
        ) from error
    output().print(f"The database is at schema {revision}.")


async def _run(settings: Settings) -> None:
    from chronica.recorder import Recorder  # noqa: PLC0415  (heavy)

    with stop_on_signals() as stop:
        _log.info(
            "recorder starts kafka=%s topic=%s",
            settings.kafka_bootstrap_servers,
            settings.acta_topic,
        )
        recorder = Recorder(settings)
        telling = asyncio.ensure_future(tell_partitions(lambda: recorder.partitions))
        try:
            await record_until(stop, recorder)
        finally:
            telling.cancel()
        _log.info("recorder stopped")


async def tell_partitions(held: Callable[[], dict[int, int]], poll_s: float = 1.0) -> None:
    """Log which partitions are held, whenever that has changed; never returns.

    Args:
        held: as ``Recorder.partitions``.
        poll_s: how often to look.
    """
    told: list[int] = []
    while True:
        now = sorted(partition for partition, at in held().items() if at >= 0)
        if now != told:
            told = now
            _log.info("recorder holds partitions=%s", ",".join(map(str, now)) or "none")
        await asyncio.sleep(poll_s)


async def record_until(stop: Stop, recorder: Recorder) -> None:
    """Run the recorder until a stop is asked for; then it ends within 5 s, whatever it waits for.

    Raises:
        LogRefusedError: as ``Recorder.run``.
        SchemaRefusedError: likewise.
    """
    running = asyncio.ensure_future(recorder.run())
    asked = asyncio.ensure_future(stop.asked.wait())
    try:
        await asyncio.wait([running, asked], return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            recorder.stop()
            hurry = asyncio.ensure_future(stop.hurry.wait())
            # It may be waiting for a Kafka that doesn't answer: that is cut off, not waited for.
            await asyncio.wait(
                [running, hurry], timeout=_STOP_WITHIN_S, return_when=asyncio.FIRST_COMPLETED
            )
            hurry.cancel()
    finally:
        asked.cancel()
        if not running.done():
            running.cancel()
            await asyncio.wait([running])
    if not running.cancelled():
        running.result()
