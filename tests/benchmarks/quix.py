"""quixstreams with its PostgreSQL sink, in a virtual environment that holds nothing of ours."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict
from tests.benchmarks.peers import make_table, time_rows
from tests.benchmarks.sample import Acta
from tests.benchmarks.stage import ROOT, NotToBeHadError, Stage

__all__ = ["quix_rate"]

_PYTHON = ROOT / "build" / "bench-venv" / "bin" / "python"
_APP = Path(__file__).with_name("quix_app.py")


def quix_rate(stage: Stage, dsn: str, topic: str, acta: Acta) -> float:
    """Return rows per second from a topic into a new table.

    Args:
        stage: where.
        dsn: database of the table.
        topic: filled with these acta.
        acta: all that it holds.

    Raises:
        NotToBeHadError: its virtual environment isn't there.
    """
    if not _PYTHON.exists():
        raise NotToBeHadError(f"{_PYTHON.relative_to(ROOT)} is not there: `make bench` makes it.")
    table = f"quix_{secrets.token_hex(4)}"
    make_table(dsn, table)
    postgres = conninfo_to_dict(dsn)
    settings = {
        "kafka": stage.kafka,
        "group": table,
        "topic": topic,
        "table": table,
        "state_dir": str(stage.directory / table),
        "postgres": {name: postgres[name] for name in ("host", "port", "dbname", "user")}
        | {"password": postgres["password"]},
    }
    command = [str(_PYTHON), "-P", str(_APP), json.dumps(settings)]
    with stage.process("quixstreams", command) as process:
        return time_rows(stage, process, dsn, table, acta)
