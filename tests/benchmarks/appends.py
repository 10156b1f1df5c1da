"""Appends over HTTP, one at a time and in lists, against an API that people write by hand."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
from tests.benchmarks.clients import rate_of
from tests.benchmarks.rows import Row, Spec, at_least, median
from tests.benchmarks.sample import OWNER, make_acta
from tests.benchmarks.stage import Stage, recorder_command
from tests.harness.api_process import api_process

from chronica.infra.embedded._ports import LOOPBACK, free_port

__all__ = ["SIZES", "SPECS", "measure"]

_CHRONICA = 200
_POOL = 5_000
_LASTS_S = 5.0
_REPETITIONS = 3
_SINGLE_CLIENTS = 16
_BATCH_CLIENTS = 8
_BATCH = 100

_AGAINST = "FastAPI, psycopg, ON CONFLICT DO NOTHING"
_NOTE = "One process each, recorded when answered; ours also orders, numbers and guards by owner."
_SINGLE = Spec(
    f"HTTP appends, one actum a request, {_SINGLE_CLIENTS} clients",
    "acta/s",
    _AGAINST,
    at_least(0.5),
    _NOTE,
)
_BATCHES = Spec(
    f"HTTP appends, {_BATCH} acta a request, {_BATCH_CLIENTS} clients",
    "acta/s",
    _AGAINST,
    at_least(0.5),
    _NOTE,
)

SIZES = f"{_LASTS_S:g} s each, median of {_REPETITIONS}"
SPECS = (_SINGLE, _BATCHES)

Request = Callable[[], tuple[str, bytes]]


def measure(stage: Stage) -> Iterator[Row]:
    """Send to both APIs in turn and yield a row for each kind of request."""
    bodies = _bodies(stage.seed)
    lasts_s = stage.count(int(_LASTS_S * 10)) / 10
    with (
        stage.log() as settings,
        stage.process("recorder", recorder_command(), settings=settings),
        api_process(settings) as api,
        _bare_api(stage) as bare,
    ):
        ours = api.url
        for spec, clients, count in (
            (_SINGLE, _SINGLE_CLIENTS, 1),
            (_BATCHES, _BATCH_CLIENTS, _BATCH),
        ):
            to_ours = _requests(stage.seed, bodies, "/v1/chronica/{}/acta", count)
            suffix = "" if count == 1 else "/batch"
            to_bare = _requests(stage.seed, bodies, f"/chronica/{{}}/acta{suffix}", count)
            if count > 1 and not _takes_lists(ours, to_ours):
                yield spec.missing("the API takes no lists of acta.")
                continue
            rates: dict[str, list[float]] = {ours: [], bare: []}
            for number in range(1, _REPETITIONS + 1):
                stage.say(f"{spec.name}: repetition {number} of {_REPETITIONS}")
                for url, request in ((ours, to_ours), (bare, to_bare)):
                    stage.checkpoint()
                    rate = rate_of(url, request, clients=clients, lasts_s=lasts_s)
                    rates[url].append(count * asyncio.run(rate))
            yield spec.measured(median(rates[ours]), median(rates[bare]))


def _bodies(seed: int) -> list[dict[str, str]]:
    return [
        {
            "kind": "message",
            "actor_kind": str(actum.actor_kind),
            "actor": actum.actor,
            "content": actum.content,
        }
        for actum, _key in make_acta(seed, _POOL, _CHRONICA)
    ]


def _requests(seed: int, bodies: list[dict[str, str]], path: str, count: int) -> Request:
    """Return what makes the next request; no key comes twice in a run."""
    chance = random.Random(seed)
    numbers = itertools.count()

    def request() -> tuple[str, bytes]:
        acta = [
            {**chance.choice(bodies), "idempotency_key": f"{count}-{next(numbers)}"}
            for _ in range(count)
        ]
        body = acta[0] if count == 1 else {"acta": acta}
        return path.format(f"session-{chance.randrange(_CHRONICA)}"), json.dumps(body).encode()

    return request


def _takes_lists(url: str, request: Request) -> bool:
    path, body = request()
    headers = {"Chronica-Owner": OWNER, "Content-Type": "application/json"}
    return httpx.post(f"{url}{path}", content=body, headers=headers).is_success


@contextmanager
def _bare_api(stage: Stage) -> Iterator[str]:
    """Run the API written by hand and give its URL."""
    port = free_port()
    url = f"http://{LOOPBACK}:{port}"
    with stage.database() as dsn:
        command = [sys.executable, "-m", "tests.benchmarks.bare_api", dsn, str(port)]
        with stage.process("bare-api", command) as process:
            process.until(lambda: _answers(url), within_s=30, poll_s=0.1)
            yield url


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/openapi.json").is_success
    except httpx.TransportError:
        return False
