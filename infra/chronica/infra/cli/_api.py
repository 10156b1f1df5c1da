"""``chronica api``: the HTTP API alone, in one process or several."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Annotated

import typer

from chronica.infra.settings import Settings

from ._logs import set_up_logging
from ._running import resolved
from ._settings import DataDirOption, HostOption, PortOption, load_settings
from ._stopping import stop_on_signals

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["api", "worker_app"]

_log = logging.getLogger("chronica.api")


def api(
    data_dir: DataDirOption = None,
    host: HostOption = None,
    port: PortOption = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, max=64, help="Processes that serve the port (default 1).", show_default=False
        ),
    ] = None,
) -> None:
    """Serve the HTTP API until Ctrl-C or SIGTERM.

    It may be started before Kafka, Postgres and recorders are there, and answers 503 until they
    are. Told to stop, it finishes the requests under way. Binding another address than loopback
    takes an API key: see `chronica keys create --help`.

    Examples:
      chronica api --port 8801         # for the stack that runs in .chronica
      chronica api --host 0.0.0.0 --workers 4
    """
    from chronica.api import check_protected, serve_with_workers  # noqa: PLC0415  (heavy)

    set_up_logging("INFO")
    settings = resolved(load_settings(data_dir=data_dir, host=host, port=port, workers=workers))
    if settings.workers == 1:
        asyncio.run(_serve(settings))
        return
    asyncio.run(check_protected(settings))

    def serving(url: str) -> None:
        _log.info("api serves url=%s workers=%d", url, settings.workers)

    serve_with_workers(settings, "chronica.infra.cli._api:worker_app", serving)
    _log.info("api stopped")


def worker_app() -> FastAPI:
    """Return the application of one worker process; its settings are in the environment."""
    from chronica.api import create_worker_app  # noqa: PLC0415  (heavy)

    set_up_logging("INFO")
    return create_worker_app(load_settings())


async def _serve(settings: Settings) -> None:
    from chronica.api import ApiServer  # noqa: PLC0415  (heavy)

    with stop_on_signals() as stop:
        server = ApiServer(settings)
        await server.start()
        _log.info("api serves url=%s workers=1", server.url)
        ended = asyncio.ensure_future(server.wait())
        asked = asyncio.ensure_future(stop.asked.wait())
        try:
            await asyncio.wait([ended, asked], return_when=asyncio.FIRST_COMPLETED)
        finally:
            asked.cancel()
            await server.stop()
            await asyncio.gather(ended, return_exceptions=True)
    _log.info("api stopped")
