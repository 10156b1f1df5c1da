"""The ASGI application: routes, and every error as one JSON sentence."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from chronica.acta import ChronicaError, DecisionPendingError
from chronica.api import _append, _health, _outcomes, _stream, _windows
from chronica.api._admission import Admission
from chronica.api._answers import error, queued
from chronica.api._backend import Backend
from chronica.api._bodies import Bodies
from chronica.api._keyring import Keys
from chronica.api._metrics import Measured
from chronica.api._problems import problem_of
from chronica.infra.settings import Settings

__all__ = ["create_app"]

_log = logging.getLogger("chronica.api")


def create_app(settings: Settings) -> FastAPI:
    """Return the application for one process; its parts are opened with its lifespan.

    Args:
        settings: with the addresses of Kafka and Postgres.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.draining = asyncio.Event()
        async with Keys(settings) as keys, Backend(settings) as backend:
            app.state.keys, app.state.backend = keys, backend
            ending = asyncio.create_task(_end_streams(app.state.draining, backend))
            try:
                yield
            finally:
                ending.cancel()

    app = FastAPI(
        title="Chronica",
        version=version("chronica"),
        lifespan=lifespan,
        docs_url=None,  # FastAPI's pages load from elsewhere; /openapi.json is complete
        redoc_url=None,
        redirect_slashes=False,  # a 3xx would count as success with some clients, and lose data
    )
    app.include_router(_append.router)
    app.include_router(_windows.router)
    app.include_router(_stream.router)
    app.include_router(_outcomes.router)
    app.include_router(_health.router)
    app.add_exception_handler(ChronicaError, _answer_problem)
    app.add_exception_handler(HTTPException, _answer_problem)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(ClientDisconnect, _answer_gone)
    app.add_exception_handler(Exception, _answer_unexpected)
    # The last that is added is the first that a request meets.
    app.add_middleware(Admission, requests_max=settings.requests_max)
    app.add_middleware(Measured)
    app.add_middleware(_EncodedPath)
    app.state.streams = _stream.Streams(settings.streams_max)
    app.state.bodies = Bodies(settings.body_budget_bytes)
    return app


async def _end_streams(draining: asyncio.Event, backend: Backend) -> None:
    await draining.wait()
    backend.end_streams()


class _EncodedPath:
    """Routes by the path as it was sent: an encoded slash is part of an id, never a separator."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope.get("raw_path"):
            scope = {**scope, "path": scope["raw_path"].decode("ascii", "replace")}
        await self._app(scope, receive, send)


async def _answer_problem(request: Request, error_: Exception) -> Response:
    if isinstance(error_, DecisionPendingError):
        return queued(error_.submission_id, error_.position)
    problem = problem_of(error_)
    if problem is None:
        return await _answer_unexpected(request, error_)
    return error(problem.status, problem.detail, problem.headers, **problem.fields)


async def _answer_invalid(_request: Request, problem: Exception) -> Response:
    assert isinstance(problem, RequestValidationError), "registered for it"
    details: list[dict[str, Any]] = [
        {"loc": list(item["loc"]), "msg": item["msg"], "type": item["type"]}
        for item in problem.errors()
    ]
    return error(422, details)


async def _answer_gone(_request: Request, _problem: Exception) -> Response:
    # The client went away within its body: nothing was recorded, and nobody reads this.
    return error(400, "The body ended before it was whole. Nothing was recorded.")


async def _answer_unexpected(request: Request, problem: Exception) -> Response:
    _log.error("unexpected error method=%s", request.method, exc_info=problem)
    return error(500, "This is a fault of the server; its log says more.")
