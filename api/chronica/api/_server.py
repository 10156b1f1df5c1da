"""The API as a server of this process: bound before it says so, drained before it is gone."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn
from fastapi import FastAPI

from chronica.api._app import create_app
from chronica.infra.settings import Settings
from chronica.projections import (
    PostgresUnavailableError,
    SchemaRefusedError,
    connect,
    read_keys,
)

__all__ = [
    "ApiServer",
    "ApiStartError",
    "bind",
    "check_address",
    "check_protected",
    "server_options",
    "url_of",
]

# Longer than any client keeps an idle connection: a reset there would be a lost write.
_KEEP_ALIVE_S = 75
_DRAIN_S = 10
_STOP_WITHIN_S = 20.0
_UNACKNOWLEDGED_MS = 30_000
_BACKLOG = 2048


class ApiStartError(Exception):
    """The API can't be bound; the sentence says why and what to do."""


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the process, which stops its parts in order."""
        yield


class ApiServer:
    """Serves the API from this process's event loop.

    Args:
        settings: host and port, and the addresses of Kafka and Postgres.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._socket: socket.socket | None = None
        self._app: FastAPI | None = None
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """Where it serves."""
        assert self._socket is not None, "started"
        return url_of(self._socket)

    async def start(self) -> None:
        """Bind and serve; the routes answer 503 until Kafka is reached.

        Raises:
            ApiStartError: the port is taken, the host is not of this machine, or it is open to
                others while no key protects it.
        """
        await check_protected(self._settings)
        self._socket = bind(self._settings)
        self._app = create_app(self._settings)
        self._server = _Server(uvicorn.Config(self._app, **server_options()))
        self._task = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        while not self._server.started:
            if self._task.done():
                self._socket.close()
                raise ApiStartError("The API did not start: its log says why.")
            await asyncio.sleep(0.01)

    async def wait(self) -> None:
        """Wait until it ends by itself, which is a fault."""
        assert self._task is not None, "started"
        await asyncio.shield(self._task)

    async def stop(self) -> None:
        """Take no new requests, finish those under way, and close; bounded."""
        if self._server is None or self._task is None or self._socket is None:
            return
        assert self._app is not None, "started"
        self._app.state.draining.set()
        self._server.should_exit = True
        _done, late = await asyncio.wait([self._task], timeout=_STOP_WITHIN_S)
        if late:
            self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._socket.close()


def check_address(settings: Settings) -> None:
    """Check ahead that the API could be bound now.

    Raises:
        ApiStartError: the port is taken, or the host is not of this machine.
    """
    bind(settings).close()


async def check_protected(settings: Settings) -> None:
    """Check that whoever reaches the API needs a key, or is on this machine.

    Raises:
        ApiStartError: neither, or Postgres can't say.
    """
    if settings.is_loopback or settings.grants():
        return
    assert settings.postgres_dsn is not None, "the caller has resolved the addresses"
    mend = (
        "make one with `chronica keys create`, set CHRONICA_API_KEYS, or bind loopback only "
        "(CHRONICA_HOST=127.0.0.1)."
    )
    try:
        conn = await connect(settings.postgres_dsn.get_secret_value(), name="chronica api")
        try:
            protected = bool(await read_keys(conn))
        finally:
            await conn.close()
    except (PostgresUnavailableError, SchemaRefusedError) as error:
        raise ApiStartError(
            f"Whether there are API keys is not known ({' '.join(str(error).split())}), so "
            f"{settings.host} is not bound: start Postgres, {mend}"
        ) from error
    if not protected:
        raise ApiStartError(
            f"There is no API key, so {settings.host} is not bound: whoever reaches it could read "
            f"and write everything. To serve others, {mend}"
        )


def bind(settings: Settings) -> socket.socket:
    """Return the socket that the API serves on, bound and listening.

    Raises:
        ApiStartError: the port is taken, or the host is not of this machine.
    """
    host, port = settings.host, settings.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named because asyncio sets TCP_NODELAY only on sockets that name it; without
    # it each small answer waits some 40 ms for the client's delayed acknowledgement.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        # Who doesn't acknowledge for so long is gone: the kernel must not keep what it was sent.
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNACKNOWLEDGED_MS)
    try:
        bound.bind((host, port))
        bound.listen(_BACKLOG)
    except OSError as problem:
        bound.close()
        raise ApiStartError(
            f"Port {port} of {host} can't be bound ({problem.strerror}): stop what uses it, or "
            "choose another with --port or CHRONICA_PORT (0 takes a free one)."
        ) from problem
    bound.setblocking(False)  # noqa: FBT003
    return bound


def url_of(bound: socket.socket) -> str:
    """Return the URL of what serves on a bound socket."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def server_options() -> dict[str, Any]:
    """Return the options that uvicorn serves with, in this process or in workers."""
    return {
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "lifespan": "on",
        "timeout_keep_alive": _KEEP_ALIVE_S,
        "timeout_graceful_shutdown": _DRAIN_S,
    }
