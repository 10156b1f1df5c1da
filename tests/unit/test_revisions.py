"""The revisions that the code knows are those there are migrations to."""

from __future__ import annotations

from chronica.projections._alembic import revisions
from chronica.projections._migrate import REVISIONS


def test_every_migration_is_known_and_no_other() -> None:
    assert revisions() == REVISIONS
