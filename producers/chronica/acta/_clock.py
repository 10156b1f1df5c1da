"""The one place that reads the wall clock; everything else takes a function (style, 6)."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["utc_now"]


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)
