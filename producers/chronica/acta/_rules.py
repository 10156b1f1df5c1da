"""What owner, key and ``expected_seq`` must be; the rules of an actum are with its model."""

from __future__ import annotations

from chronica.acta._errors import (
    EmptyOwnerIDError,
    InvalidActumError,
    InvalidIdempotencyKeyError,
    InvalidOwnerIDError,
)
from chronica.acta._models import TEXT_CODE_POINTS_MAX

__all__ = ["SEQ_MAX", "validate_expected_seq", "validate_key", "validate_owner"]

SEQ_MAX = 2**63 - 1
"""The largest seq that record version 1 and Postgres's bigint hold."""


def validate_owner(owner: str) -> None:
    """Check an owner before anything else is looked at.

    Raises:
        EmptyOwnerIDError: it is empty.
        InvalidOwnerIDError: it is not a string, or too long.
    """
    if not isinstance(owner, str):
        raise InvalidOwnerIDError(
            f"The owner must be a string, not {type(owner).__name__}. Nothing was read or written."
        )
    if not owner:
        raise EmptyOwnerIDError
    if len(owner) > TEXT_CODE_POINTS_MAX:
        raise InvalidOwnerIDError(
            f"The owner has {len(owner)} code points, more than {TEXT_CODE_POINTS_MAX}. "
            "Nothing was read or written."
        )


def validate_key(key: str | None) -> None:
    """Check an idempotency key; None is no key, an empty one is an error.

    Raises:
        InvalidIdempotencyKeyError: it is not a string, empty, or too long.
    """
    if key is None:
        return
    if not isinstance(key, str):
        raise InvalidIdempotencyKeyError(
            f"The idempotency key must be a string, not {type(key).__name__}. Nothing was written."
        )
    if not key:
        raise InvalidIdempotencyKeyError(
            "The idempotency key is empty. Nothing was written: give a key, or None for no "
            "deduplication."
        )
    if len(key) > TEXT_CODE_POINTS_MAX:
        raise InvalidIdempotencyKeyError(
            f"The idempotency key has {len(key)} code points, more than {TEXT_CODE_POINTS_MAX}. "
            "Nothing was written: give a shorter one, for instance a hash."
        )


def validate_expected_seq(expected_seq: int | None) -> None:
    """Check an expected seq; None expects nothing.

    Raises:
        InvalidActumError: it is not an integer from 0 to ``SEQ_MAX``.
    """
    if expected_seq is None:
        return
    if isinstance(expected_seq, bool) or not isinstance(expected_seq, int):
        raise InvalidActumError("expected_seq", "must be an integer")
    if not 0 <= expected_seq <= SEQ_MAX:
        raise InvalidActumError("expected_seq", "must be from 0 to 2^63-1")
