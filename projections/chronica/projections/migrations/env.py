"""Alembic's environment: one database, one advisory lock, the version table beside the pinned."""

from __future__ import annotations

from alembic import context
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

# Two starts at once migrate one after the other; the lock goes with the transaction.
_MIGRATION_LOCK = 0x4348_524D

# No pool: the connection is closed with its block, however that ends.
engine = create_engine(
    "postgresql+psycopg://", creator=context.config.attributes["connect"], poolclass=NullPool
)
with engine.connect() as connection, connection.begin():
    connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK})
    connection.execute(text("CREATE SCHEMA IF NOT EXISTS chronica"))
    context.configure(
        connection=connection,
        version_table="migrations",
        version_table_schema="chronica",
        transactional_ddl=True,
    )
    context.run_migrations()
