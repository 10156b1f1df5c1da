"""Several processes that serve one socket: uvicorn's supervisor, and what a worker must do besides.

A worker that dies is replaced; one that is told to stop finishes what is under way. The socket is
bound once, by the parent, so no connection waits at a worker that is gone.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import FrameType

import uvicorn
from fastapi import FastAPI
from prometheus_client.multiprocess import mark_process_dead
from uvicorn.supervisors import Multiprocess

from chronica.api._app import create_app
from chronica.api._server import bind, server_options, url_of
from chronica.infra.settings import Settings

__all__ = ["create_worker_app", "serve_with_workers"]

_PARENT_POLL_S = 1.0
_METRICS_DIR = "PROMETHEUS_MULTIPROC_DIR"


def serve_with_workers(settings: Settings, app: str, serving: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; then every worker drains, and this returns.

    Args:
        settings: they reach the workers as environment variables.
        app: where workers find their application's factory, as ``module:function``.
        serving: called with the URL once it is bound.

    Raises:
        ApiStartError: the port is taken, or the host is not of this machine.
    """
    bound = bind(settings)
    metrics_dir = tempfile.mkdtemp(prefix="chronica-metrics-")
    os.environ |= {**settings.environment(), _METRICS_DIR: metrics_dir}
    try:
        config = uvicorn.Config(app, factory=True, workers=settings.workers, **server_options())
        serving(url_of(bound))
        _Supervisor(config, sockets=[bound]).run()
    finally:
        bound.close()
        del os.environ[_METRICS_DIR]
        shutil.rmtree(metrics_dir, ignore_errors=True)


class _Supervisor(Multiprocess):
    def keep_subprocess_alive(self) -> None:
        """Replace the workers that died; what they gauged died with them."""
        before = {process.pid for process in self.processes}
        super().keep_subprocess_alive()
        for pid in before - {process.pid for process in self.processes}:
            mark_process_dead(pid)  # type: ignore[no-untyped-call]


def create_worker_app(settings: Settings) -> FastAPI:
    """Return the application of a worker: it drains on a signal, and ends with its parent."""
    app = create_app(settings)
    serve = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with serve(app):
            _drain_on_signals(app.state.draining)
            watch = asyncio.create_task(_end_with_parent(os.getppid()))
            try:
                yield
            finally:
                watch.cancel()

    app.router.lifespan_context = lifespan
    return app


def _drain_on_signals(draining: asyncio.Event) -> None:
    """Let streams end before uvicorn, whose handlers these are, waits for them to end."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        then = signal.getsignal(number)

        def drain(
            number: int,
            frame: FrameType | None,
            then: Callable[[int, FrameType | None], object] | int | None = then,
        ) -> None:
            loop.call_soon_threadsafe(draining.set)
            if callable(then):
                then(number, frame)

        signal.signal(number, drain)


async def _end_with_parent(parent: int) -> None:
    """Stop this process when its parent was killed: nobody would ever stop it."""
    while os.getppid() == parent:  # noqa: ASYNC110  (nothing tells of it)
        await asyncio.sleep(_PARENT_POLL_S)
    os.kill(os.getpid(), signal.SIGTERM)
