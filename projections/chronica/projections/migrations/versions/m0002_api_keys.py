"""API keys, in the pinned schema."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Run the SQL file beside this one."""
    sql = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
    connection = op.get_bind().connection.driver_connection
    assert connection is not None, "a migration runs on a connection"
    connection.execute(sql)
