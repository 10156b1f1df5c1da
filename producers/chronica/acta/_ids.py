"""The one place that makes ids from randomness; everything else takes a function (style, 6)."""

from __future__ import annotations

import uuid

__all__ = ["random_id"]


def random_id() -> str:
    """Return a new id: a random UUID as text."""
    return str(uuid.uuid4())  # noqa: TID251 - the default that the ban points to
