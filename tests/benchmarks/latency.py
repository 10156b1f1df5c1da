"""How long a recorded answer takes, with nothing else to do, in Python and over HTTP."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator

from tests.benchmarks.clients import Client
from tests.benchmarks.rows import Row, Spec, at_most, percentile
from tests.benchmarks.sample import OWNER, make_acta
from tests.benchmarks.stage import Stage, recorder_command
from tests.harness.api_process import api_process

from chronica.acta import Chronicarius
from chronica.infra.settings import Settings

__all__ = ["SIZES", "SPECS", "measure"]

_ACTA = 1_000
_WARM_UP = 100
_CHRONICA = 50
_LIMITS_MS = {50: 10.0, 99: 50.0}

SIZES = f"{_ACTA:,} acta one after the other, each way"
SPECS = tuple(
    Spec(
        f"record_actum, acks=recorded, {way}, p{percent}",
        "ms",
        f"the limit, {limit_ms:g} ms",
        at_most(1),
    )
    for way in ("Python", "HTTP")
    for percent, limit_ms in _LIMITS_MS.items()
)


def measure(stage: Stage) -> Iterator[Row]:
    """Record one actum after the other, each way, and yield the rows."""
    count = stage.count(_ACTA)
    with stage.log() as settings, stage.process("recorder", recorder_command(), settings=settings):
        stage.say("latency: in Python")
        in_python = asyncio.run(_in_python(settings, stage.seed, count))
        stage.say("latency: over HTTP")
        with api_process(settings) as api:
            over_http = _over_http(api.url, stage.seed, count)
    specs = iter(SPECS)
    for took_ms in (in_python, over_http):
        for percent, limit_ms in _LIMITS_MS.items():
            yield next(specs).measured(percentile(took_ms, percent), limit_ms)


async def _in_python(settings: Settings, seed: int, count: int) -> list[float]:
    took_ms = []
    async with Chronicarius.connect(settings=settings) as chronicarius:
        for actum, key in make_acta(seed, _WARM_UP + count, _CHRONICA):
            started_s = time.perf_counter()
            await chronicarius.record_actum(OWNER, actum, idempotency_key=f"py-{key}")
            took_ms.append((time.perf_counter() - started_s) * 1000)
    return took_ms[_WARM_UP:]


def _over_http(url: str, seed: int, count: int) -> list[float]:
    client = Client(url, {"Chronica-Owner": OWNER, "Content-Type": "application/json"})
    took_ms = []
    for actum, key in make_acta(seed, _WARM_UP + count, _CHRONICA):
        body = {
            "kind": str(actum.kind),
            "actor_kind": str(actum.actor_kind),
            "actor": actum.actor,
            "content": actum.content,
            "idempotency_key": f"http-{key}",
        }
        path = f"/v1/chronica/{actum.chronicum_id}/acta"
        took_ms.append(1000 * client.seconds("POST", path, json.dumps(body).encode(), 201))
    client.close()
    return took_ms[_WARM_UP:]
