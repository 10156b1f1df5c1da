"""Finding the log store without importing it: ``chronica.acta`` stays pure."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from importlib.metadata import entry_points
from typing import cast

from chronica.acta._errors import StoreNotInstalledError
from chronica.acta._ports import Store

__all__ = ["STORES_GROUP", "StoreFactory", "load_store_factory"]

STORES_GROUP = "chronica.stores"

StoreFactory = Callable[..., AbstractAsyncContextManager[Store]]
"""Called as ``factory(tenant=..., settings=..., **options)``."""


def load_store_factory(name: str = "log") -> StoreFactory:
    """Return the store factory that an installed package offers under this name.

    Raises:
        StoreNotInstalledError: none does, or what it needs is not installed.
    """
    for entry_point in entry_points(group=STORES_GROUP, name=name):
        try:
            return cast("StoreFactory", entry_point.load())
        except ImportError as error:
            # The module ships in every wheel of Chronica; its drivers come with the extra only.
            raise StoreNotInstalledError(str(error)) from error
    raise StoreNotInstalledError(f"no entry point {name!r} in the group {STORES_GROUP!r}")
