"""A fleet over HTTP: clients that append, singly and in batches, and do what the answers say.

Each keeps a ledger of what it was promised. A client that is cut off, or told "unknown", tries
again with the key; one that has no key and is cut off can't know, and promises nothing.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from typing import Any

import httpx
from tests.harness.http import acta_path

from chronica.acta import random_id

__all__ = ["OWNER", "Fleet"]

OWNER = {"Chronica-Owner": "ardian"}
_CHRONICA = 24


class Fleet:
    """Clients of one API.

    Args:
        url: where the API serves.
        clients: how many.
        seed: of every choice that is made here.
        retries: how often what was acknowledged is sent again all the same, from 0 to 1.
    """

    def __init__(self, url: str, clients: int, seed: int, *, retries: float = 0.2) -> None:
        self.sent: dict[str, set[str]] = {}
        self.promised: dict[str, set[str]] = {}
        """Contents that were acknowledged, by chronicum."""
        self.answers: Counter[int | str] = Counter()
        """How often each status, or each error of a connection, was the answer."""
        self.slowest_s: dict[int, float] = {}
        self._url = url
        self._random = random.Random(seed)
        self._retries = retries
        self._chronica = [random_id() for _ in range(_CHRONICA)]
        for chronicum in self._chronica:
            self.sent[chronicum], self.promised[chronicum] = set(), set()
        self._stopping = asyncio.Event()
        self._tasks = [asyncio.create_task(self._client(f"client{n}")) for n in range(clients)]

    @property
    def count(self) -> int:
        """How many acta were acknowledged."""
        return sum(map(len, self.promised.values()))

    async def progress(self, more: int = 1, *, within_s: float = 60.0) -> None:
        """Wait until so many more are acknowledged; an error that ended a client is raised."""
        wanted = self.count + more
        async with asyncio.timeout(within_s):
            while self.count < wanted:
                for task in self._tasks:
                    if task.done():
                        task.result()
                await asyncio.sleep(0.02)

    async def stop(self) -> None:
        """Let every client finish what it has begun, retries included."""
        self._stopping.set()
        await asyncio.gather(*self._tasks)

    async def check(self, url: str) -> None:
        """Assert that everything acknowledged is there, once, and nothing that was not sent."""
        async with httpx.AsyncClient(base_url=url, headers=OWNER, timeout=60) as http:
            for chronicum in self._chronica:
                answer = await http.get(
                    acta_path(chronicum), params={"consistency": "linearizable"}
                )
                if answer.status_code == 404 and not self.promised[chronicum]:
                    continue
                assert answer.status_code == 200, answer.text
                acta = answer.json()["acta"]
                contents = [actum["content"] for actum in acta]
                assert [actum["seq"] for actum in acta] == list(range(1, len(acta) + 1))
                assert len(contents) == len(set(contents)), "something is there twice"
                assert self.promised[chronicum] <= set(contents), "something acknowledged is lost"
                assert set(contents) <= self.sent[chronicum]

    async def _client(self, name: str) -> None:
        number = 0
        async with httpx.AsyncClient(base_url=self._url, headers=OWNER, timeout=60) as http:
            while not self._stopping.is_set():
                number += 1
                chronicum = self._random.choice(self._chronica)
                size = self._random.choice([1, 1, 1, 10])
                items = [self._item(f"{name} {number} {n}") for n in range(size)]
                self.sent[chronicum] |= {item["content"] for item in items}
                if await self._record(http, chronicum, items):
                    self.promised[chronicum] |= {item["content"] for item in items}
                    named = [item for item in items if "idempotency_key" in item]
                    if named and self._random.random() < self._retries:
                        await self._record(http, chronicum, named)

    def _item(self, content: str) -> dict[str, Any]:
        item = {"kind": "message", "actor_kind": "agent", "actor": "a", "content": content}
        if self._random.random() < 0.8:
            item["idempotency_key"] = f"key of {content}"
        return item

    async def _record(
        self, http: httpx.AsyncClient, chronicum: str, items: list[dict[str, Any]]
    ) -> bool:
        """Record items until all are acknowledged; tell whether they are."""
        left = items
        while left:
            one = len(left) == 1
            began = time.monotonic()
            try:
                answer = await http.post(
                    acta_path(chronicum), json=left[0] if one else {"acta": left}
                )
            except httpx.TransportError as error:
                self.answers[type(error).__name__] += 1
                if any("idempotency_key" not in item for item in left):
                    return False  # it may be there or not, and nobody can ask
                await asyncio.sleep(0.05)
                continue
            status = answer.status_code
            self.answers[status] += 1
            self.slowest_s[status] = max(self.slowest_s.get(status, 0.0), time.monotonic() - began)
            if status == 503:
                assert int(answer.headers["Retry-After"]) >= 1
                await asyncio.sleep(0.2)
                continue
            results = [{"status": status, **answer.json()}] if one else answer.json()["results"]
            left = self._again(left, results)
        return True

    def _again(
        self, items: list[dict[str, Any]], results: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return what has to be sent again, with the keys that make it safe."""
        again = []
        for item, result in zip(items, results, strict=True):
            status = result["status"] if isinstance(result["status"], int) else 202
            if status == 504:
                self.answers["unknown"] += 1
                again.append({**item, "idempotency_key": result["retry_key"]})
            elif status == 503:
                again.append(item)
            else:
                assert status in (200, 201, 202), result
        return again
