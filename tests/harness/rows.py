"""Long chronica, written straight into the tables: what a recorder would take minutes to make."""

from __future__ import annotations

import psycopg
from tests.harness.running import dsn_of

from chronica.infra.settings import Settings
from chronica.projections import chronicum_digest

__all__ = ["fill"]

_FIRST_NUMBER = 2**60  # far from any that a record of the log makes
_COUNT_MAX = 10**9  # so that each chronicum has offsets of its own


def fill(settings: Settings, chronicum: str, *, count: int, chars: int = 300) -> None:
    """Make a chronicum of ``ardian`` whose kinds take turns.

    Seq 1 to 4 are a message, a tool request, its response and a thought, and so on. A content is
    its seq and then x, so many characters in all. Every tenth request has no response: the
    response after it names another.
    """
    with psycopg.connect(dsn_of(settings), autocommit=True) as connection:
        row = connection.execute(
            "SELECT greatest(max(number) + %s, %s) FROM chronica_g1.chronica",
            [_COUNT_MAX, _FIRST_NUMBER],
        ).fetchone()
        assert row is not None
        parameters = {
            "number": row[0],
            "digest": chronicum_digest("local", chronicum),
            "chronicum": chronicum,
            "count": count,
            "chars": chars,
        }
        connection.execute(
            "INSERT INTO chronica_g1.chronica (number, digest, created_at, last_activity_at, "
            "last_seq, tenant, id, owner) VALUES (%(number)s, %(digest)s, now(), now(), "
            "%(count)s, 'local', %(chronicum)s, 'ardian')",
            parameters,
        )
        connection.execute(
            """
            INSERT INTO chronica_g1.acta (chronicum, seq, "offset", at, dedupe, partition, chars,
                kind, actor_kind, id, actor, call_id, content)
            SELECT %(number)s, n, %(number)s + n, now(), gen_random_uuid(), 0, %(chars)s,
                (ARRAY['thought', 'message', 'tool_request', 'tool_response'])[1 + n %% 4]
                    ::chronica.actum_kind,
                (ARRAY['agent', 'human', 'agent', 'system'])[1 + n %% 4]::chronica.actor_kind,
                n::text, 'ardian',
                CASE
                    WHEN n %% 4 = 2 THEN 'call ' || n
                    WHEN n %% 4 = 3 AND n %% 40 = 3 THEN 'none'
                    WHEN n %% 4 = 3 THEN 'call ' || n - 1
                END,
                rpad(n || ' ', %(chars)s, 'x')
            FROM generate_series(1, %(count)s::bigint) n
            """,
            parameters,
        )
