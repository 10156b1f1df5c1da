"""Chronicarius's own rules: the order of its checks, races, and the stores it prefers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pytest

from chronica.acta import (
    ActorKind,
    Actum,
    ActumKind,
    Chronicarius,
    Chronicum,
    ChronicumExistsError,
    ChronicumNotFoundError,
    Decision,
    EmptyOwnerIDError,
    ExpectedSeqUnsupportedError,
    IdempotencyUnsupportedError,
    InvalidActumError,
    InvalidIdempotencyKeyError,
    InvalidWindowError,
    MemoryStore,
    StoreNotInstalledError,
    WindowQuery,
)

MESSAGE = Actum(
    chronicum_id="dinner",
    kind=ActumKind.MESSAGE,
    actor_kind=ActorKind.HUMAN,
    actor="ardian",
    content="hello",
)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class PlainStore:
    """A store of four methods that writes down its calls and stamps no times of its own."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.chronica: dict[str, Chronicum] = {}
        self.recorded: list[Actum] = []
        self.queries: list[WindowQuery] = []
        self.rival: str | None = None

    async def create(self, chronicum: Chronicum) -> Chronicum:
        self.calls.append("create")
        if self.rival is not None:
            self.chronica[chronicum.id] = replace(chronicum, owner_id=self.rival)
        if chronicum.id in self.chronica:
            raise ChronicumExistsError(chronicum.id)
        self.chronica[chronicum.id] = chronicum
        return chronicum

    async def record(self, actum: Actum) -> Actum:
        self.calls.append("record")
        self.recorded.append(actum)
        return replace(actum, at=NOON, seq=len(self.recorded))

    async def acta(self, chronicum_id: str, query: WindowQuery) -> Sequence[Actum]:
        self.calls.append("acta")
        self.queries.append(query)
        return tuple(self.recorded)

    async def get(self, chronicum_id: str) -> Chronicum:
        self.calls.append("get")
        if chronicum_id not in self.chronica:
            raise ChronicumNotFoundError("the store's own words")
        return self.chronica[chronicum_id]


class KeyedStore(PlainStore):
    async def record_idempotent(self, actum: Actum, key: str) -> Actum:
        self.calls.append(f"record_idempotent {key}")
        return actum


class DecidingStoreDouble(PlainStore):
    async def submit(
        self, owner: str, actum: Actum, *, key: str | None, expected_seq: int | None
    ) -> Decision:
        self.calls.append(f"submit {owner} {key} {expected_seq}")
        self.recorded.append(actum)
        return Decision(actum=actum, duplicate=False)


class GuardedStoreDouble(PlainStore):
    async def window(self, owner: str, chronicum_id: str, query: WindowQuery) -> Sequence[Actum]:
        self.calls.append(f"window {owner} {chronicum_id}")
        self.queries.append(query)
        return ()

    async def chronicum(self, owner: str, chronicum_id: str) -> Chronicum:
        self.calls.append(f"chronicum {owner} {chronicum_id}")
        return Chronicum(id=chronicum_id, owner_id=owner, created_at=NOON, last_activity_at=NOON)


def _chronicarius(store: PlainStore) -> Chronicarius:
    return Chronicarius(store, new_id=lambda: "new", clock=lambda: NOON)


async def test_the_checks_run_in_their_order_and_before_the_store_is_touched() -> None:
    store = PlainStore()
    c = _chronicarius(store)
    invalid = replace(MESSAGE, actor="", metadata={"a": object()})
    wrong: dict[str, Any] = {"idempotency_key": "", "expected_seq": -1}
    with pytest.raises(EmptyOwnerIDError):
        await c.record_actum("", invalid, **wrong)
    with pytest.raises(InvalidActumError, match="actor"):
        await c.record_actum("ardian", invalid, **wrong)
    with pytest.raises(InvalidActumError, match="metadata"):
        await c.record_actum("ardian", replace(invalid, actor="a"), **wrong)
    with pytest.raises(InvalidActumError, match="expected_seq"):
        await c.record_actum("ardian", MESSAGE, **wrong)
    with pytest.raises(InvalidIdempotencyKeyError):
        await c.record_actum("ardian", MESSAGE, idempotency_key="", expected_seq=0)
    with pytest.raises(IdempotencyUnsupportedError):
        await c.record_actum("ardian", MESSAGE, idempotency_key="key", expected_seq=0)
    with pytest.raises(ExpectedSeqUnsupportedError):
        await c.record_actum("ardian", MESSAGE, expected_seq=0)
    assert store.calls == []


async def test_a_key_without_a_store_for_it_is_refused_before_the_owner_is_guarded() -> None:
    store = PlainStore()
    c = _chronicarius(store)
    await c.record_actum("somebody else", MESSAGE)
    store.calls.clear()
    with pytest.raises(IdempotencyUnsupportedError):
        await c.record_actum("ardian", MESSAGE, idempotency_key="key")
    assert store.calls == []
    with pytest.raises(ChronicumNotFoundError):
        await c.record_actum("ardian", MESSAGE)
    assert store.calls == ["get", "get"]


async def test_a_plain_store_is_asked_then_made_to_create_then_to_record() -> None:
    store = PlainStore()
    c = _chronicarius(store)
    sent = replace(MESSAGE, id="mine", at=NOON + timedelta(days=1), seq=9)
    stored = await c.record_actum("ardian", sent)
    assert store.calls == ["get", "create", "record"]
    assert store.chronica["dinner"] == Chronicum(
        id="dinner", owner_id="ardian", created_at=NOON, last_activity_at=NOON
    )
    assert store.recorded == [replace(MESSAGE, id="new")]
    assert stored == replace(MESSAGE, id="new", at=NOON, seq=1)
    store.calls.clear()
    await c.record_actum("ardian", MESSAGE)
    assert store.calls == ["get", "record"]


async def test_a_key_goes_to_a_store_that_can_deduplicate() -> None:
    store = KeyedStore()
    await _chronicarius(store).record_actum("ardian", MESSAGE, idempotency_key="key")
    await _chronicarius(store).record_actum("ardian", MESSAGE)
    assert store.calls == ["get", "create", "record_idempotent key", "get", "record"]
    with pytest.raises(ExpectedSeqUnsupportedError):
        await _chronicarius(store).record_actum(
            "ardian", MESSAGE, idempotency_key="key", expected_seq=0
        )


@pytest.mark.parametrize(("rival", "wins"), [("ardian", True), ("eve", False)])
async def test_a_lost_race_to_create_is_decided_by_who_owns_it_now(rival: str, wins: bool) -> None:
    store = PlainStore()
    store.rival = rival
    c = _chronicarius(store)
    if wins:
        assert (await c.record_actum("ardian", MESSAGE)).seq == 1
        assert store.calls == ["get", "create", "get", "record"]
    else:
        with pytest.raises(ChronicumNotFoundError):
            await c.record_actum("ardian", MESSAGE)
        assert store.calls == ["get", "create", "get"]


async def test_a_deciding_store_gets_everything_in_one_call() -> None:
    store = DecidingStoreDouble()
    sent = replace(MESSAGE, id="mine", seq=9, metadata={"a": (1,)})
    await _chronicarius(store).record_actum("ardian", sent, idempotency_key="k", expected_seq=3)
    assert store.calls == ["submit ardian k 3"]
    assert store.recorded == [replace(MESSAGE, id="new", metadata={"a": [1]})]


async def test_a_guarded_store_reads_in_one_call() -> None:
    store = GuardedStoreDouble()
    c = _chronicarius(store)
    assert await c.get_acta("ardian", "dinner", last_n=5, kinds=["message"]) == []
    assert (await c.get_chronicum("ardian", "dinner")).owner_id == "ardian"
    assert store.calls == ["window ardian dinner", "chronicum ardian dinner"]
    assert store.queries == [WindowQuery(kinds=(ActumKind.MESSAGE,), last_n=5)]
    with pytest.raises(EmptyOwnerIDError):
        await c.get_acta("", "dinner")
    with pytest.raises(EmptyOwnerIDError):
        await c.get_chronicum("", "dinner")


async def test_a_plain_store_is_read_only_after_the_guard() -> None:
    store = PlainStore()
    c = _chronicarius(store)
    await c.record_actum("ardian", MESSAGE)
    store.calls.clear()
    with pytest.raises(ChronicumNotFoundError) as foreign:
        await c.get_acta("eve", "dinner")
    with pytest.raises(InvalidWindowError):
        await c.get_acta("ardian", "dinner", last_n=True)
    assert store.calls == ["get"]
    acta = await c.get_acta("ardian", "dinner")
    assert isinstance(acta, list)
    assert store.calls == ["get", "get", "acta"]
    store.chronica.clear()
    with pytest.raises(ChronicumNotFoundError) as missing:
        await c.get_acta("eve", "dinner")
    assert str(foreign.value) == str(missing.value)
    assert missing.value.__context__ is None


async def test_what_is_no_actum_is_said_to_be_none() -> None:
    with pytest.raises(InvalidActumError, match="must be an Actum, not dict"):
        await _chronicarius(PlainStore()).record_actum("ardian", {})  # type: ignore[arg-type]


async def test_metadata_that_contains_itself_is_invalid() -> None:
    circle: dict[str, Any] = {}
    circle["a"] = circle
    with pytest.raises(InvalidActumError) as caught:
        await _chronicarius(PlainStore()).record_actum("ardian", replace(MESSAGE, metadata=circle))
    assert caught.value.field == "metadata"


async def test_closing_closes_a_store_that_can_be_closed_and_no_other() -> None:
    class Closable(PlainStore):
        async def aclose(self) -> None:
            self.calls.append("aclose")

    store = Closable()
    async with Chronicarius(store) as c:
        await c.record_actum("ardian", MESSAGE)
    assert store.calls[-1] == "aclose"
    async with Chronicarius(PlainStore()):
        pass


def _install(monkeypatch: pytest.MonkeyPatch, *points: EntryPoint) -> None:
    found = EntryPoints(points)
    monkeypatch.setattr("chronica.acta._entry_point.entry_points", found.select)


opened: list[Any] = []


@asynccontextmanager
async def memory_factory(**options: Any) -> AsyncIterator[MemoryStore]:
    opened.append(options)
    try:
        yield MemoryStore()
    finally:
        opened.append("closed")


async def test_connect_opens_the_installed_log_store_and_closes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    point = EntryPoint(name="log", value="ignored:ignored", group="chronica.stores")
    monkeypatch.setattr(EntryPoint, "load", lambda _: memory_factory)
    _install(monkeypatch, point, EntryPoint(name="other", value="a:b", group="chronica.stores"))
    opened.clear()
    async with Chronicarius.connect(tenant="acme", settings={"a": 1}, wait_s=3) as c:
        assert (await c.record_actum("ardian", MESSAGE)).seq == 1
        assert opened == [{"tenant": "acme", "settings": {"a": 1}, "wait_s": 3}]
    assert opened[-1] == "closed"


@pytest.mark.parametrize(
    "points",
    [(), (EntryPoint(name="log", value="chronica.not_there:connect", group="chronica.stores"),)],
)
async def test_connect_without_the_log_store_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, points: tuple[EntryPoint, ...]
) -> None:
    _install(monkeypatch, *points)
    with pytest.raises(StoreNotInstalledError, match=r"chronica\[server\]"):
        async with Chronicarius.connect():
            pass


async def test_a_character_that_was_cut_in_two_is_one_again_wherever_it_stands() -> None:
    cut, whole = "a\ud83d\ude00", "a\U0001f600"
    chronicarius = Chronicarius(MemoryStore())
    actum = replace(
        MESSAGE, chronicum_id=cut, actor=cut, content=cut, call_id=cut, metadata={cut: cut}
    )
    stored = await chronicarius.record_actum(cut, actum, idempotency_key=cut)
    assert {stored.chronicum_id, stored.actor, stored.content, stored.call_id} == {whole}
    assert stored.metadata == {whole: whole}
    assert await chronicarius.record_actum(whole, actum, idempotency_key=whole) == stored
    assert await chronicarius.get_acta(cut, cut) == [stored]
    assert (await chronicarius.get_chronicum(cut, cut)).owner_id == whole
