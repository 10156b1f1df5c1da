"""API keys: how they are written, and what a ring of them answers."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from uuid import UUID

import pytest
from pydantic import ValidationError

from chronica.api._keyring import KeyRing, Look
from chronica.infra.keys import Grant, check_scopes, key_digest, new_secret, parse_keys
from chronica.infra.settings import Settings
from chronica.projections import ApiKey

LOCAL = Grant("local", frozenset(("ingest", "read", "admin")))
READER = Grant("fleet", frozenset(("read",)))
NOW = datetime(2026, 1, 1, tzinfo=UTC)
numbers = itertools.count()


def stored(secret: str, *, revoked: bool = False, scopes: tuple[str, ...] = ("read",)) -> ApiKey:
    revoked_at = NOW if revoked else None
    digest = key_digest(secret.encode())
    return ApiKey(UUID(int=next(numbers)), digest, secret[:6], "fleet", "", scopes, NOW, revoked_at)


def test_keys_are_read_from_one_line() -> None:
    grants = parse_keys("k1:fleet:read, k2:a b/ü:ingest+read,op:*:admin")
    assert grants == {
        key_digest(b"k1"): READER,
        key_digest(b"k2"): Grant("a b/ü", frozenset(("ingest", "read"))),
        key_digest(b"op"): Grant("*", frozenset(("admin",))),
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "secret",
        "secret:fleet",
        "secret:fleet:",
        ":fleet:read",
        "secret::read",
        "secret:fleet:write",
        "secret:*:read",
        "secret:*:admin+read",
        "ok:fleet:read,secret:fleet:nothing",
        "secret:fleet:read,secret:other:read",
        "secret:fleet:read,",
        "sec ret:fleet:read",
    ],
)
def test_what_is_no_key_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"entry [12]") as refused:
        parse_keys(text)
    assert "secret" not in str(refused.value)
    with pytest.raises(ValidationError) as invalid:
        Settings(api_keys=text)
    shown = str(invalid.value.errors(include_input=False, include_context=False))
    assert "secret" not in shown


def test_an_operator_manages_keys_and_nothing_else() -> None:
    assert check_scopes("*", ["admin"]) == {"admin"}
    with pytest.raises(ValueError, match="operator"):
        check_scopes("*", ["admin", "read"])


def test_secrets_are_long_random_and_fit_into_the_setting() -> None:
    secrets = {new_secret() for _ in range(100)}
    assert len(secrets) == 100
    assert len(parse_keys(",".join(f"{secret}:t:read" for secret in secrets))) == 100


def test_nobody_is_let_in_before_the_stored_keys_were_read() -> None:
    ring = KeyRing({}, LOCAL)
    assert ring.look(None) is ring.look(b"any") is Look.NOT_READ
    assert not ring.read


def test_a_ring_is_open_until_there_is_a_key_and_never_again() -> None:
    ring = KeyRing({}, LOCAL)
    ring.take([])
    assert ring.look(None) == ring.look(b"any") == LOCAL
    ring.take([stored("a")])
    assert ring.look(None) is Look.MISSING
    assert ring.look(b"any") is Look.UNKNOWN
    assert ring.look(b"a") == READER
    ring.take([stored("a", revoked=True)])
    assert ring.look(None) is Look.MISSING
    assert ring.look(b"a") is Look.UNKNOWN


def test_a_ring_that_others_reach_is_never_open() -> None:
    ring = KeyRing({}, None)
    ring.take([])
    assert ring.look(None) is Look.MISSING
    assert ring.look(b"any") is Look.UNKNOWN


def test_fixed_keys_need_no_database_and_close_the_ring() -> None:
    ring = KeyRing(parse_keys("k:fleet:read"), LOCAL)
    assert ring.look(b"k") == READER
    assert ring.look(None) is Look.MISSING
    assert ring.look(b"other") is Look.NOT_READ
    ring.take([])
    assert ring.look(b"other") is Look.UNKNOWN


def test_a_scope_that_this_version_does_not_know_grants_nothing() -> None:
    ring = KeyRing({}, None)
    ring.take([stored("a", scopes=("read", "fly"))])
    assert ring.look(b"a") == READER
