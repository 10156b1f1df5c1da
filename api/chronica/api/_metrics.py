"""What the API counts and measures, for Prometheus.

Requests are labelled by route, never by path: ids are content, and there is no end to them. With
several worker processes (``PROMETHEUS_MULTIPROC_DIR``) counters and histograms are those of all of
them together; the names and their meanings are in docs/operations.md.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client import generate_latest as exposition
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chronica.log import LogWriter

__all__ = ["LogState", "Measured", "follow_writer", "render", "streams"]

_TOPIC = "acta"
_EVERY_S = 1.0

_requests = Counter("chronica_http_requests", "Requests answered.", ["method", "route", "status"])
_durations = Histogram(
    "chronica_http_request_duration_seconds",
    "From the request's first byte to the answer's last.",
    ["method", "route"],
    buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10),
)
_under_way = Gauge(
    "chronica_http_requests_under_way",
    "Requests that are being answered, streams included.",
    multiprocess_mode="livesum",
)
_queued_bytes = Gauge(
    "chronica_writer_queued_bytes",
    "What is appended and not acknowledged by Kafka yet.",
    multiprocess_mode="livesum",
)
_queued_records = Gauge(
    "chronica_writer_queued_records", "Likewise, in records.", multiprocess_mode="livesum"
)
streams = Gauge("chronica_streams", "Streams that are open.", multiprocess_mode="livesum")
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))


class Measured:
    """ASGI middleware that counts requests by route and status, and measures them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 0  # of a client that left before its answer began
        begun_s = time.perf_counter()

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        _under_way.inc()
        try:
            await self._app(scope, receive, watched)
        finally:
            _under_way.dec()
            # Both come from the client: a label must not take what it likes.
            route = getattr(scope.get("route"), "path", "none")
            method = scope["method"] if scope["method"] in _METHODS else "other"
            _requests.labels(method, route, str(status)).inc()
            _durations.labels(method, route).observe(time.perf_counter() - begun_s)


async def follow_writer(writer: LogWriter) -> None:
    """Keep the gauges of the writer's queue; never returns."""
    while True:
        _queued_bytes.set(writer.queued_bytes)
        _queued_records.set(writer.queued_records)
        await asyncio.sleep(_EVERY_S)


@dataclass(frozen=True, slots=True)
class LogState:
    """What is true of the whole log at the moment of a scrape; what is not known is left out.

    Attributes:
        ends: offset after the last record, by partition.
        recorded: next offset to be recorded, by partition.
        dead_letters: how many are kept, by reason.
    """

    ends: Mapping[int, int] = field(default_factory=dict)
    recorded: Mapping[int, int] = field(default_factory=dict)
    dead_letters: Mapping[str, int] | None = None


def render(state: LogState) -> bytes:
    """Return all metrics in Prometheus' text format."""
    registry = CollectorRegistry()
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    else:
        registry.register(_Default())
    registry.register(_OfTheLog(state))
    return exposition(registry)


class _Default(Collector):
    """What this process has: our own, and what the client library says of the process."""

    def collect(self) -> Iterable[Metric]:
        return REGISTRY.collect()


class _OfTheLog(Collector):
    def __init__(self, state: LogState) -> None:
        self._state = state

    def collect(self) -> Iterable[Metric]:
        state = self._state
        lag = {
            n: max(0, end - state.recorded[n])
            for n, end in state.ends.items()
            if n in state.recorded
        }
        yield _by_partition("chronica_log_end_offset", "Offset after the last record.", state.ends)
        yield _by_partition(
            "chronica_recorded_offset", "Next offset to be recorded.", state.recorded
        )
        yield _by_partition("chronica_lag_records", "Records that are not recorded yet.", lag)
        letters = GaugeMetricFamily(
            "chronica_dead_letters", "Dead letters that are kept.", labels=["topic", "reason"]
        )
        for reason, count in (state.dead_letters or {}).items():
            letters.add_metric([_TOPIC, reason], count)
        yield letters


def _by_partition(name: str, help_text: str, values: Mapping[int, int]) -> Metric:
    family = GaugeMetricFamily(name, help_text, labels=["topic", "partition"])
    for partition, value in values.items():
        family.add_metric([_TOPIC, str(partition)], value)
    return family
