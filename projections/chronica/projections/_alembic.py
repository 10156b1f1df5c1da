"""Alembic, behind one call.

It takes a second to import and most processes never migrate: only ``migrate`` imports this module,
when it is called.
"""

from __future__ import annotations

import threading
from pathlib import Path

import psycopg
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy.exc import DBAPIError

__all__ = ["revisions", "upgrade"]

# Alembic keeps what it works on in module globals: one migration at a time in a process. Between
# processes the database's own lock does the same (migrations/env.py).
_one_at_a_time = threading.Lock()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    return config


def revisions() -> tuple[str, ...]:
    """Return all revisions there are migrations to, oldest first."""
    scripts = ScriptDirectory.from_config(_config()).walk_revisions()
    return tuple(script.revision for script in scripts)[::-1]


def upgrade(dsn: str) -> None:
    """Run the migrations that are missing.

    Raises:
        psycopg.Error: what Postgres said.
    """
    config = _config()
    config.attributes["connect"] = lambda: psycopg.connect(dsn, client_encoding="UTF8")
    try:
        with _one_at_a_time:
            command.upgrade(config, "head")
    except DBAPIError as error:
        # SQLAlchemy wraps what Postgres said; the caller sorts psycopg's own errors.
        if isinstance(error.orig, psycopg.Error):
            raise error.orig from error
        raise
