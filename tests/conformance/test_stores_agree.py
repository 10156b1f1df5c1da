"""The log store and the memory store, given the same commands, give the same answers.

A model test: hypothesis makes up commands, both stores carry them out through Chronicarius, and
every answer is compared, errors with all their fields. Ids and times are each store's own: ids are
mapped one to one, times only have to hold together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from tests.harness.running import LoopThread, fresh_database, new_prefix, recorded, soaking

from chronica.acta import (
    EPOCH,
    ActorKind,
    Actum,
    ActumKind,
    ChronicaError,
    Chronicarius,
    Chronicum,
    MemoryStore,
    dump_json,
    random_id,
)
from chronica.acta.conformance import HOSTILE_METADATA, HOSTILE_TEXTS
from chronica.infra.embedded import EmbeddedKafka, EmbeddedPostgres
from chronica.infra.settings import Settings
from chronica.store import connect

# Hypothesis prints what it finds, and Python prints no integer of 5,000 digits.
PRINTABLE_METADATA = [v for k, v in HOSTILE_METADATA.items() if "digit limit" not in k]

hostile = st.sampled_from(sorted(HOSTILE_TEXTS.values()))
texts = st.one_of(hostile, st.text(st.characters(exclude_categories=()), min_size=1, max_size=20))
names = st.one_of(st.just("dinner"), hostile)
owners = st.sampled_from(["ardian", "stranger", "ardian ", "a\x00", "\ud800"])
keys = st.one_of(st.none(), st.sampled_from(["k1", "k2", "k1 ", "k\x00", "k\\u0000", "\udc00"]))
metadata = st.one_of(
    st.none(),
    st.sampled_from(PRINTABLE_METADATA),
    st.dictionaries(
        texts,
        st.recursive(
            st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts),
            lambda inner: st.lists(inner, max_size=3),
            max_leaves=5,
        ),
        max_size=3,
    ),
)
acta = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(ActumKind),
        "actor_kind": st.sampled_from(ActorKind),
        "actor": texts,
        "content": texts,
        "call_id": st.one_of(st.none(), st.sampled_from(["c1", "c2", "c\x00"])),
        "metadata": metadata,
    }
)
spoilt_acta = st.sampled_from(
    [
        {"content": ""},
        {"content": 7},
        {"kind": "shout"},
        {"kind": None},
        {"actor_kind": "ghost"},
        {"actor": ""},
        {"actor": "a" * 1025},
        {"call_id": ""},
        {"metadata": ["a list"]},
        {"metadata": {"a": object()}},
        {"metadata": {7: "a number as name"}},
        {"chronicum_id": ""},
        {"chronicum_id": "c" * 1025},
    ]
)
spoilt_options = st.sampled_from(
    [
        {"idempotency_key": ""},
        {"idempotency_key": "k" * 1025},
        {"expected_seq": -1},
        {"expected_seq": True},
        {"expected_seq": 2**63},
        {"owner": ""},
        {"owner": "o" * 1025},
        {"owner": None},
    ]
)
windows = st.fixed_dictionaries(
    {
        "last_n": st.one_of(st.integers(-1, 12), st.just(2**70)),
        "kinds": st.one_of(st.none(), st.lists(st.sampled_from(ActumKind), max_size=3)),
        "actor_kinds": st.one_of(st.none(), st.lists(st.sampled_from(ActorKind), max_size=2)),
        "max_chars": st.one_of(st.none(), st.integers(0, 60), st.just(2**70), st.just(-1)),
        "whole_calls": st.booleans(),
    }
)
expected_seqs = st.one_of(st.none(), st.none(), st.integers(0, 6))


@dataclass(frozen=True)
class Stores:
    """Both stores, each behind its Chronicarius, and the loop they live in."""

    thread: LoopThread
    log: Chronicarius
    memory: Chronicarius


class StoresAgree(RuleBasedStateMachine):
    """One run of commands, in chronica that no other run has."""

    stores: Stores

    def __init__(self) -> None:
        super().__init__()
        self.run_id = random_id()
        self.memory_ids: dict[str, str] = {}
        self.log_ids: dict[str, str] = {}

    @rule(
        name=names,
        owner=owners,
        fields=acta,
        key=keys,
        expected_seq=expected_seqs,
    )
    def record(
        self,
        name: str,
        owner: str,
        fields: dict[str, Any],
        key: str | None,
        expected_seq: int | None,
    ) -> None:
        actum = Actum(chronicum_id=self.run_id + name, **fields)
        self.compare("record_actum", owner, actum, idempotency_key=key, expected_seq=expected_seq)

    @rule(name=names, contents=st.lists(texts, min_size=1, max_size=8))
    def record_some(self, name: str, contents: list[str]) -> None:
        """So that windows have something to choose from."""
        for number, content in enumerate(contents):
            kind = list(ActumKind)[number % 4]
            actum = Actum(
                chronicum_id=self.run_id + name,
                kind=kind,
                actor_kind=list(ActorKind)[number % 3],
                actor="ardian",
                content=content,
                call_id="c1" if number % 5 else None,
            )
            self.compare("record_actum", "ardian", actum)

    @rule(name=names, fields=acta, spoilt=spoilt_acta)
    def record_a_spoilt_actum(
        self, name: str, fields: dict[str, Any], spoilt: dict[str, Any]
    ) -> None:
        actum = Actum(**({"chronicum_id": self.run_id + name} | fields | spoilt))
        self.compare("record_actum", "ardian", actum)

    @rule(name=names, fields=acta, spoilt=spoilt_options)
    def record_with_spoilt_options(
        self, name: str, fields: dict[str, Any], spoilt: dict[str, Any]
    ) -> None:
        actum = Actum(chronicum_id=self.run_id + name, **fields)
        options = {"owner": "ardian", **spoilt}
        self.compare("record_actum", options.pop("owner"), actum, **options)

    @rule(name=names, owner=owners, options=windows)
    def read(self, name: str, owner: str, options: dict[str, Any]) -> None:
        self.compare("get_acta", owner, self.run_id + name, **options)

    @rule(name=names, owner=owners)
    def look(self, name: str, owner: str) -> None:
        self.compare("get_chronicum", owner, self.run_id + name)

    @rule(name=names, owner=st.sampled_from(["", "o" * 1025]))
    def read_as_nobody(self, name: str, owner: str) -> None:
        self.compare("get_acta", owner, self.run_id + name)
        self.compare("get_chronicum", owner, self.run_id + name)

    def compare(self, method: str, *arguments: Any, **options: Any) -> None:
        """Ask both stores; fail where their answers differ."""
        answers = [
            self.stores.thread.run(_answer(store, method, *arguments, **options))
            for store in (self.stores.log, self.stores.memory)
        ]
        note(f"{method}{arguments}{options}\n  log    {answers[0]}\n  memory {answers[1]}")
        log, memory = answers
        assert type(log) is type(memory)
        if isinstance(log, ChronicaError):
            assert (vars(log), str(log)) == (vars(memory), str(memory))
        elif isinstance(log, Chronicum):
            assert self._timeless(log) == self._timeless(memory)
        elif isinstance(log, list):
            assert len(log) == len(memory)
            for one, other in zip(log, memory, strict=True):
                self._compare_acta(one, other)
        else:
            self._compare_acta(log, memory)

    def _compare_acta(self, log: Actum, memory: Actum) -> None:
        assert log.at.utcoffset() == timedelta(0)
        assert self._plain(log) == self._plain(memory)
        # One to one: an actum of one store is always the same actum of the other.
        assert self.memory_ids.setdefault(log.id, memory.id) == memory.id
        assert self.log_ids.setdefault(memory.id, log.id) == log.id

    @staticmethod
    def _plain(actum: Actum) -> tuple[Actum, str | None]:
        # As text: NaN is not equal to itself, and 1 is equal to 1.0 and True.
        metadata = None if actum.metadata is None else dump_json(dict(actum.metadata))
        return replace(actum, id="", at=EPOCH, metadata=None), metadata

    @staticmethod
    def _timeless(chronicum: Chronicum) -> Chronicum:
        assert chronicum.created_at <= chronicum.last_activity_at
        return replace(chronicum, created_at=EPOCH, last_activity_at=EPOCH)


async def _answer(store: Chronicarius, method: str, *arguments: Any, **options: Any) -> Any:
    try:
        return await getattr(store, method)(*arguments, **options)
    except ChronicaError as error:
        return error


@pytest.fixture(scope="module")
def stores(kafka: EmbeddedKafka, postgres: EmbeddedPostgres) -> Iterator[Stores]:
    with fresh_database(postgres.dsn) as dsn, LoopThread() as thread:
        settings = Settings(
            kafka_bootstrap_servers=kafka.bootstrap_servers,
            postgres_dsn=dsn,
            topic_prefix=new_prefix("agree"),
        )
        with recorded(settings):
            store = connect(settings=settings)
            log = Chronicarius(thread.run(store.__aenter__()))
            yield Stores(thread, log, Chronicarius(MemoryStore()))
            thread.run(store.__aexit__(None, None, None))


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_the_log_store_answers_as_the_memory_store_does(stores: Stores) -> None:
    machine = type("StoresAgree", (StoresAgree,), {"stores": stores})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=soaking(200, 20),
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
