"""``chronica api`` with several processes: replaced when they die, drained when they stop."""

from __future__ import annotations

import asyncio
import os
import signal
from functools import partial
from pathlib import Path

import httpx
import pytest
from tests.harness.api_processes import ApiProcess, api_process
from tests.harness.http import acta_path
from tests.harness.running import recorded, until

from chronica.acta import random_id
from chronica.infra.settings import Settings

OWNER = {"Chronica-Owner": "ardian"}


class Clients:
    """Keep-alive clients that append without pause, and what they were told."""

    def __init__(self, url: str, count: int) -> None:
        self.chronicum = random_id()
        self.acknowledged: set[str] = set()
        self.cut_off = 0
        self._stopping = asyncio.Event()
        self._url = url
        self._tasks = [asyncio.create_task(self._append(n)) for n in range(count)]

    async def _append(self, client: int) -> None:
        async with httpx.AsyncClient(base_url=self._url, headers=OWNER, timeout=30) as http:
            number = 0
            while not self._stopping.is_set():
                number += 1
                content = f"{client} {number}"
                body = {
                    "kind": "message",
                    "actor_kind": "agent",
                    "actor": str(client),
                    "content": content,
                    "idempotency_key": content,
                }
                while True:
                    try:
                        answer = await http.post(acta_path(self.chronicum), json=body)
                    except httpx.TransportError:
                        self.cut_off += 1
                        if self._stopping.is_set():
                            return
                        await asyncio.sleep(0.05)
                        continue
                    if answer.status_code < 300:
                        self.acknowledged.add(content)
                        break
                    assert answer.status_code in (503, 504), answer.text
                    if self._stopping.is_set():
                        return

    async def progress(self, more: int) -> None:
        wanted = len(self.acknowledged) + more
        async with asyncio.timeout(60):
            while len(self.acknowledged) < wanted:
                for task in self._tasks:
                    if task.done():
                        task.result()
                await asyncio.sleep(0.02)

    async def stop(self) -> None:
        self._stopping.set()
        await asyncio.gather(*self._tasks)


async def contents(url: str, chronicum: str) -> list[str]:
    async with httpx.AsyncClient(base_url=url, headers=OWNER, timeout=30) as http:
        answer = await http.get(acta_path(chronicum), params={"consistency": "linearizable"})
        assert answer.status_code == 200, answer.text
        return [actum["content"] for actum in answer.json()["acta"]]


async def test_workers_that_die_are_replaced_and_nothing_is_lost_or_doubled(
    settings: Settings, tmp_path: Path
) -> None:
    with recorded(settings), api_process(settings, 2, tmp_path / "api.log") as api:
        await asyncio.to_thread(api.until_ready)
        clients = Clients(api.url, 6)
        await clients.progress(50)
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGTERM):
            before = api.workers
            assert len(before) == 2
            os.kill(before[0], number)
            await asyncio.to_thread(until, partial(replaced, api, before), "a new worker")
            await clients.progress(50)
        await clients.stop()
        recorded_ = await contents(api.url, clients.chronicum)
        assert len(recorded_) == len(set(recorded_)), "something is there twice"
        assert clients.acknowledged <= set(recorded_)
        async with httpx.AsyncClient(base_url=api.url) as http:
            metrics = (await http.get("/metrics")).text
        assert "chronica_http_requests_total" in metrics
        assert await asyncio.to_thread(api.stop) == 0, api.log


def replaced(api: ApiProcess, before: list[int]) -> bool:
    return len(api.workers) == 2 and before[0] not in api.workers


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_stop_drains(settings: Settings, tmp_path: Path, workers: int) -> None:
    with recorded(settings), api_process(settings, workers, tmp_path / "api.log") as api:
        await asyncio.to_thread(api.until_ready)
        clients = Clients(api.url, 6)
        await clients.progress(100)
        stopping = asyncio.ensure_future(asyncio.to_thread(api.stop))
        await asyncio.sleep(1.0)
        await clients.stop()
        assert await stopping == 0, api.log
        acknowledged = clients.acknowledged
        with api_process(settings, 1, tmp_path / "again.log") as again:
            await asyncio.to_thread(again.until_ready)
            recorded_ = await contents(again.url, clients.chronicum)
            assert await asyncio.to_thread(again.stop, signal.SIGINT) == 0, again.log
        assert acknowledged <= set(recorded_)
        assert len(recorded_) == len(set(recorded_))


async def test_workers_end_when_their_parent_is_killed(settings: Settings, tmp_path: Path) -> None:
    with recorded(settings), api_process(settings, 2, tmp_path / "api.log") as api:
        await asyncio.to_thread(api.until_ready)
        workers = api.workers
        assert len(workers) == 2
        api.process.kill()
        api.process.wait()

        def gone() -> bool:
            return not any(Path(f"/proc/{pid}").exists() for pid in workers)

        await asyncio.to_thread(until, gone, "the workers end")
