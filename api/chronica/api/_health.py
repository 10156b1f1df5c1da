"""Live and ready: whether this process runs, and whether what it stands on does."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from chronica.acta import StoreUnavailableError, dump_json
from chronica.api._answers import json_response
from chronica.api._backend import Backend, Opened, backend_of
from chronica.api._keyring import Keys
from chronica.api._metrics import LogState, render
from chronica.log import LogEnds, LogUnavailableError
from chronica.projections import schema_head

__all__ = ["router"]

router = APIRouter(tags=["health"])

_CHECK_S = 3.0


@router.get("/")
async def root() -> Response:
    """Say what this is, and where to read on."""
    about = {"service": "chronica", "version": version("chronica"), "openapi": "/openapi.json"}
    return json_response(dump_json(about))


@router.get("/health")
async def health() -> Response:
    """Say that this process lives."""
    return json_response(dump_json({"status": "ok", "version": version("chronica")}))


@router.get("/ready")
async def ready(request: Request) -> Response:
    """Say whether Kafka, Postgres, the schema and the recorders are there, and how far they are.

    200 when all are, else 503; ``reasons`` says which is not.
    """
    report = await _report(backend_of(request), request.app.state.keys)
    return json_response(dump_json(report), 200 if report["ready"] else 503)


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Say what is counted and measured, in Prometheus' text format.

    What Kafka or Postgres would have to say is left out while it does not answer.
    """
    try:
        opened = backend_of(request).opened
    except StoreUnavailableError:
        return Response(render(LogState()), media_type=CONTENT_TYPE_LATEST)
    partitions = range(opened.facts.partitions)
    ends, letters = await asyncio.gather(
        _ends(opened.reader.ends, partitions), _dead_letters(opened)
    )
    marks = {n: opened.reader.watermarks.get(n) for n in partitions}
    recorded = {n: mark for n, mark in marks.items() if mark is not None}
    return Response(render(LogState(ends, recorded, letters)), media_type=CONTENT_TYPE_LATEST)


async def _ends(ends: LogEnds, partitions: range) -> dict[int, int]:
    """Return where each partition ends; none while Kafka does not answer."""
    try:
        async with asyncio.timeout(_CHECK_S):
            offsets = await asyncio.gather(*(ends.end(n) for n in partitions))
    except (LogUnavailableError, TimeoutError):
        return {}
    return dict(zip(partitions, offsets, strict=True))


async def _dead_letters(opened: Opened) -> dict[str, int] | None:
    try:
        async with asyncio.timeout(_CHECK_S):
            return await opened.reader.dead_letters()
    except (StoreUnavailableError, TimeoutError):
        return None


async def _report(backend: Backend, keys: Keys) -> dict[str, Any]:
    reasons: list[str] = []
    report: dict[str, Any] = {
        "ready": False,
        "kafka": False,
        "postgres": False,
        "schema": None,
        "recorded": False,
        "lag": {"acta": {}},
        "open_transactions": {"acta": []},
        "reasons": reasons,
    }
    try:
        opened = backend.opened
    except StoreUnavailableError as error:
        reasons.append(str(error))
        return report
    await asyncio.gather(_kafka(opened, report, reasons), _postgres(opened, report, reasons))
    _lag(opened, report, reasons)
    if report["postgres"] and not keys.read:
        reasons.append("The API keys are not read yet: nobody is let in.")
    report["ready"] = not reasons
    return report


async def _kafka(opened: Opened, report: dict[str, Any], reasons: list[str]) -> None:
    partitions = range(opened.facts.partitions)
    ends, stable = await asyncio.gather(
        _ends(opened.reader.ends, partitions), _ends(opened.stable_ends, partitions)
    )
    if not ends or not stable:
        reasons.append("Kafka does not answer: appends are refused until it is back.")
        return
    report["kafka"] = True
    report["ends"] = ends
    report["open_transactions"]["acta"] = [n for n in partitions if stable[n] < ends[n]]


async def _postgres(opened: Opened, report: dict[str, Any], reasons: list[str]) -> None:
    try:
        async with asyncio.timeout(_CHECK_S):
            facts = await opened.reader.facts()
    except (StoreUnavailableError, TimeoutError):
        reasons.append("Postgres does not answer: appends go on, reads wait for it.")
        return
    report["postgres"] = True
    report["schema"] = facts.revision
    if facts.revision != schema_head():
        reasons.append(
            f"The database is at schema {facts.revision}, this version needs {schema_head()}: run "
            "`chronica migrate`."
        )
        return
    free = [n for n in range(opened.facts.partitions) if n not in facts.held]
    report["recorded"] = not free
    if free:
        reasons.append(f"No recorder holds partitions {free}: start one with `chronica recorder`.")


def _lag(opened: Opened, report: dict[str, Any], reasons: list[str]) -> None:
    ends: dict[int, int] = report.pop("ends", {})
    for partition, end in ends.items():
        mark = opened.reader.watermarks.get(partition)
        report["lag"]["acta"][str(partition)] = None if mark is None else max(0, end - mark)
    if ends and report["postgres"] and not opened.reader.watermarks.connected:
        reasons.append("The watermarks are not known yet: reads wait for them.")
