"""The statements of context windows: cost like the answer, never like the chronicum.

A window is what lies between two seqs, of the wanted kinds. Its lower end is found first, by a walk
from the newest that stops where the window does; then its rows are read upwards, in the order they
are served, so that nothing is sorted and the first row comes at once. With filters each wanted pair
of kinds has a walk of its own on the index ``acta_window``, and the walks are merged: a rare kind
costs no more than a common one (docs/decisions/0012).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from chronica.acta import ActorKind, ActumKind, WindowQuery

__all__ = [
    "NOT_FOUND",
    "PAGE_BYTES",
    "WALK_ROWS",
    "WINDOW_SESSION",
    "acta_between",
    "after_seq",
    "calls_between",
    "first_page",
]

PAGE_BYTES: Final = 1024 * 1024
"""How much of a window the first statement brings, in bytes of text and what comes with it."""

NOT_FOUND: Final = -1
"""In place of the seq that a window lies above: it is further than the first statement walks."""

WALK_ROWS: Final = 100_000
"""How many acta the first statement adds up for ``max_chars``: some 70 ms at most."""

WINDOW_SESSION: Final = (
    "-c enable_sort=off -c enable_seqscan=off -c enable_bitmapscan=off -c enable_hashagg=off "
    "-c enable_hashjoin=off -c enable_mergejoin=off -c jit=off "
    "-c plan_cache_mode=force_generic_plan"
)
"""Session options under which each statement here walks its indexes, in order, from the start.

Postgres can't know how far a walk goes before it stops. Where it guesses "all the way" it would
rather read everything and sort, or compile first: both cost the more the longer the chronicum is.
The plan is the same for all parameters, so it is made once for each prepared statement.
"""

_INT_MAX: Final = 2**63 - 1
_ACTUM_EXTRA_BYTES: Final = 256  # names, quotes, times and ids around an actum's texts


@dataclass(frozen=True, slots=True)
class _Walk:
    """Which acta of the chronicum ``c`` a statement walks over, and its parameters so far."""

    schema: str
    pairs: int
    parameters: dict[str, Any]

    def over(self, columns: str, bounds: str, order: str) -> str:
        """Return the query of these columns of ``w`` within bounds on ``w.seq``, in this order."""
        walk = f"SELECT {columns} FROM {self.schema}.acta w WHERE w.chronicum = c.number {bounds}"
        if not self.pairs:
            return f"{walk} ORDER BY {order}"
        # Each in order, or Postgres would not merge them but sort all of them together.
        return " UNION ALL ".join(
            f"({walk} AND w.kind = %(kind{n})s::chronica.actum_kind"
            f" AND w.actor_kind = %(actor_kind{n})s::chronica.actor_kind ORDER BY {order})"
            for n in range(self.pairs)
        )


def first_page(query: WindowQuery, schema: str, columns: str, parameters: dict[str, Any]) -> str:
    """Return the joins that add a window's beginning to a statement with the chronicum as ``c``.

    They add ``span.after_seq`` (the window lies above it; NOT_FOUND: the page is empty, and
    ``after_seq`` finds it), ``page.end_seq`` (the first actum that is not on the page any more,
    NULL if all are) and ``a``: the page's rows, oldest first.

    Args:
        query: validated.
        schema: of the derived generation.
        columns: of ``w``; ``w.seq`` is among them.
        parameters: the statement's; those of the query are added.
    """
    walk = _walk(query, schema, parameters)
    size = (
        "octet_length(w.content) + octet_length(w.actor) + coalesce(octet_length(w.call_id), 0)"
        f" + coalesce(octet_length(w.metadata), 0) + octet_length(c.id) + {_ACTUM_EXTRA_BYTES}"
    )
    above = f"AND w.seq > span.after_seq AND span.after_seq <> {NOT_FOUND}"
    sizes = walk.over(f"w.seq, {size} AS size", above, "w.seq")
    rows = walk.over(
        columns,
        f"{above} AND w.seq < coalesce(page.end_seq, {_INT_MAX})",
        "w.seq",
    )
    # OFFSET 0 and LIMIT keep Postgres from moving a walk to where it would be made several times.
    return f"""
        LEFT JOIN LATERAL (
            SELECT {_after(query, walk, "c.last_seq", WALK_ROWS)} AS after_seq OFFSET 0
        ) span ON true
        LEFT JOIN LATERAL (
            SELECT s.seq AS end_seq FROM (
                SELECT w.seq, sum(w.size) OVER (ORDER BY w.seq ROWS UNBOUNDED PRECEDING) AS total
                FROM ({sizes}) w
            ) s WHERE s.total > {PAGE_BYTES} ORDER BY s.seq LIMIT 1
        ) page ON true
        LEFT JOIN LATERAL (SELECT * FROM ({rows}) w ORDER BY w.seq) a ON true
    """


def after_seq(query: WindowQuery, schema: str, parameters: dict[str, Any]) -> str:
    """Return the statement of the seq that a window lies above, however far it must walk.

    It needs the parameters ``number`` and ``last_seq``, and gives no row at all if the chronicum
    has not come to ``last_seq``; what is newer is left out.
    """
    after = _after(query, _walk(query, schema, parameters), "%(last_seq)s::bigint", _INT_MAX)
    return f"""
        SELECT {after} FROM {schema}.chronica c
        WHERE c.number = %(number)s AND c.last_seq >= %(last_seq)s
    """


def acta_between(query: WindowQuery, schema: str, columns: str, parameters: dict[str, Any]) -> str:
    """Return the statement of a window's rows between two seqs, oldest first.

    It needs the parameters ``number``, ``after_seq`` and ``last_seq``, and gives no row at all if
    the chronicum has not come to ``last_seq``; if only the window is empty, a row of NULLs.
    """
    walk = _walk(query, schema, parameters)
    rows = walk.over(columns, "AND w.seq > %(after_seq)s AND w.seq <= %(last_seq)s", "w.seq")
    return f"""
        SELECT a.* FROM {schema}.chronica c
        LEFT JOIN LATERAL (SELECT * FROM ({rows}) w ORDER BY w.seq) a ON true
        WHERE c.number = %(number)s AND c.last_seq >= %(last_seq)s
    """


def calls_between(query: WindowQuery, schema: str, parameters: dict[str, Any]) -> str:
    """Return the statement of the tool calls' ``seq, kind, call_id``, as ``acta_between``."""
    tools = (ActumKind.TOOL_REQUEST, ActumKind.TOOL_RESPONSE)
    calls = WindowQuery(kinds=tools, actor_kinds=query.actor_kinds)
    return acta_between(calls, schema, "w.seq, w.kind::text, w.call_id", parameters)


def _walk(query: WindowQuery, schema: str, parameters: dict[str, Any]) -> _Walk:
    # Sets: a kind that is named twice must not give its acta twice.
    kinds, actor_kinds = set(query.kinds or ActumKind), set(query.actor_kinds or ActorKind)
    if len(kinds) == len(ActumKind) and len(actor_kinds) == len(ActorKind):
        return _Walk(schema, 0, parameters)
    pairs = list(product(sorted(kinds), sorted(actor_kinds)))
    for n, (kind, actor_kind) in enumerate(pairs):
        parameters |= {f"kind{n}": kind, f"actor_kind{n}": actor_kind}
    return _Walk(schema, len(pairs), parameters)


def _after(query: WindowQuery, walk: _Walk, last_seq: str, rows_max: int) -> str:
    """Return the expression of the seq that a window up to ``last_seq`` lies above."""
    newest = f"AND w.seq <= {last_seq}"
    after = "0::bigint"
    if query.last_n > 0:
        walk.parameters["last_n"] = min(query.last_n, _INT_MAX)
        # seq has no gaps: without filters nothing has to be counted.
        after = f"greatest({last_seq} - %(last_n)s::bigint, 0)"
        if walk.pairs:
            after = f"""coalesce((
                SELECT w.seq FROM ({walk.over("w.seq", newest, "w.seq DESC")}) w
                ORDER BY w.seq DESC OFFSET %(last_n)s LIMIT 1
            ), 0)"""
    if query.max_chars is None:
        return after
    walk.parameters["max_chars"] = min(query.max_chars, _INT_MAX)
    chars = walk.over("w.seq, w.chars", f"{newest} AND w.seq > n.after_seq", "w.seq DESC")
    return f"""(
        SELECT coalesce((
            SELECT CASE WHEN s.total > %(max_chars)s THEN s.seq ELSE {NOT_FOUND} END FROM (
                SELECT w.seq, sum(w.chars) OVER walk AS total, row_number() OVER walk AS place
                FROM ({chars}) w
                WINDOW walk AS (ORDER BY w.seq DESC ROWS UNBOUNDED PRECEDING)
            ) s WHERE s.total > %(max_chars)s OR s.place = {rows_max}
            ORDER BY s.seq DESC LIMIT 1
        ), n.after_seq) FROM (SELECT {after} AS after_seq OFFSET 0) n
    )"""
