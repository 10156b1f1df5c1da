"""The API as a server of this process: bound before it says so, drained before it is gone."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Iterator

import uvicorn

from chronica.api._app import create_app
from chronica.infra.settings import Settings

__all__ = ["ApiServer", "ApiStartError", "check_address"]

# Longer than any client keeps an idle connection: a reset there would be a lost write.
_KEEP_ALIVE_S = 75
_DRAIN_S = 10
_STOP_WITHIN_S = 20.0


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
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """Where it serves."""
        assert self._socket is not None, "started"
        host, port = self._socket.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def start(self) -> None:
        """Bind and serve; the routes answer 503 until Kafka is reached.

        Raises:
            ApiStartError: the port is taken, the host is not of this machine, or it is open to
                others while no key protects it.
        """
        self._socket = _bind(self._settings)
        config = uvicorn.Config(
            create_app(self._settings),
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="on",
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=_DRAIN_S,
        )
        self._server = _Server(config)
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
        self._server.should_exit = True
        _done, late = await asyncio.wait([self._task], timeout=_STOP_WITHIN_S)
        if late:
            self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._socket.close()


def check_address(settings: Settings) -> None:
    """Check ahead that the API could be bound now.

    Raises:
        ApiStartError: as ``ApiServer.start`` would.
    """
    _bind(settings).close()


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _bind(settings: Settings) -> socket.socket:
    host, port = settings.host, settings.port
    if not _is_loopback(host):
        raise ApiStartError(
            f"The server asks for no keys, so it binds loopback only, not {host}: whoever reaches "
            "it could read and write everything. Use --host 127.0.0.1 (CHRONICA_HOST), and put "
            "what authenticates in front of it."
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named because asyncio sets TCP_NODELAY only on sockets that name it; without
    # it each small answer waits some 40 ms for the client's delayed acknowledgement.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen(2048)
    except OSError as problem:
        bound.close()
        raise ApiStartError(
            f"Port {port} of {host} can't be bound ({problem.strerror}): stop what uses it, or "
            "choose another with --port or CHRONICA_PORT (0 takes a free one)."
        ) from problem
    bound.setblocking(False)  # noqa: FBT003
    return bound
