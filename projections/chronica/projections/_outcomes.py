"""Outcomes: what became of the submissions at given places, many in one statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import AsyncConnection

from chronica.projections._errors import sorted_error
from chronica.projections._text import from_postgres
from chronica.projections._windows import ACTUM_COLUMNS, StoredActum, stored_actum

__all__ = ["Outcome", "Place", "read_outcomes"]

Place = tuple[int, int]
"""Partition and offset in the acta topic."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one submission.

    Attributes:
        status: ``recorded``, ``duplicate``, ``refused`` or ``invalid``.
        reason: of a refusal or a dead letter.
        current_seq: the chronicum's last seq, of a sequence conflict.
        actum: the recorded one, or the first one of a duplicate.
        tenant: of the chronicum that the outcome is about, None if there is none.
        owner: likewise.
    """

    status: str
    reason: str | None = None
    current_seq: int | None = None
    actum: StoredActum | None = None
    tenant: str | None = None
    owner: str | None = None


async def read_outcomes(
    conn: AsyncConnection[Any], *, generation: int, topic: str, places: Sequence[Place]
) -> dict[Place, Outcome]:
    """Return the outcomes of those submissions that are decided.

    Raises:
        PostgresUnavailableError: Postgres did not answer.
    """
    schema = f"chronica_g{generation}"
    columns = ", ".join(f"a.{column}" for column in ACTUM_COLUMNS)
    statement = f"""
        WITH asked AS (
            SELECT * FROM unnest(%(partitions)s::int[], %(offsets)s::bigint[])
                AS p (partition, "offset")
        )
        SELECT p.partition, p."offset", 'recorded', NULL, NULL::bigint, c.id, c.tenant, c.owner,
            {columns}
        FROM asked p
        JOIN {schema}.acta a ON a.partition = p.partition AND a."offset" = p."offset"
        JOIN {schema}.chronica c ON c.number = a.chronicum
        UNION ALL
        SELECT p.partition, p."offset", o.outcome::text, o.reason, o.current_seq, c.id, c.tenant,
            c.owner, {columns}
        FROM asked p
        JOIN {schema}.outcomes o ON o.topic = %(topic)s AND o.partition = p.partition
            AND o."offset" = p."offset"
        LEFT JOIN {schema}.chronica c ON c.number = o.chronicum
        LEFT JOIN {schema}.acta a ON a.chronicum = o.chronicum AND a.seq = o.seq
        UNION ALL
        SELECT p.partition, p."offset", 'invalid', d.reason, NULL, NULL, NULL, NULL,
            NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
        FROM asked p
        JOIN {schema}.dead_letters d ON d.topic = %(topic)s AND d.partition = p.partition
            AND d."offset" = p."offset"
    """
    parameters = {
        "topic": topic,
        "partitions": [partition for partition, _offset in places],
        "offsets": [offset for _partition, offset in places],
    }
    try:
        rows = await (await conn.execute(statement, parameters)).fetchall()
    except psycopg.Error as error:
        raise sorted_error(error) from error
    outcomes: dict[Place, Outcome] = {}
    for partition, offset, status, reason, current_seq, chronicum, tenant, owner, *actum in rows:
        stored = stored_actum(from_postgres(chronicum), actum) if actum[0] is not None else None
        outcomes[partition, offset] = Outcome(
            status,
            reason,
            current_seq,
            stored,
            None if tenant is None else from_postgres(tenant),
            None if owner is None else from_postgres(owner),
        )
    return outcomes
