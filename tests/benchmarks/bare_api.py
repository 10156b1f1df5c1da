"""What people write by hand: FastAPI over one table, ``INSERT … ON CONFLICT DO NOTHING``.

``python -m tests.benchmarks.bare_api DSN PORT``. Durable when it answers (``synchronous_commit``
stays on), idempotent by (chronicum, key), one statement for an actum, one transaction for a list.
No Kafka, no owners, no gapless numbers: less than ours does, with the same promise to the caller.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal

import psycopg
import uvicorn
from fastapi import Depends, FastAPI, Request, Response
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool
from pydantic import BaseModel, Field

Pool = AsyncConnectionPool[psycopg.AsyncConnection[dict[str, Any]]]

_TABLE = """
    CREATE TABLE public.acta (
        id bigint GENERATED ALWAYS AS IDENTITY,
        chronicum text NOT NULL,
        key text NOT NULL,
        kind text NOT NULL,
        actor_kind text NOT NULL,
        actor text NOT NULL,
        content text NOT NULL,
        at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (chronicum, key)
    );
    CREATE INDEX ON public.acta (chronicum, kind, actor_kind, id)
"""
_INSERT = """
    INSERT INTO public.acta (chronicum, key, kind, actor_kind, actor, content)
    VALUES (%(chronicum)s, %(key)s, %(kind)s, %(actor_kind)s, %(actor)s, %(content)s)
    ON CONFLICT DO NOTHING
"""
_FIRST = "SELECT * FROM public.acta WHERE chronicum = %(chronicum)s AND key = %(key)s"


class ActumBody(BaseModel):
    """One actum as it is sent."""

    kind: Literal["message", "thought", "tool_request", "tool_response"]
    actor_kind: Literal["human", "agent", "system"]
    actor: str = Field(min_length=1)
    content: str
    idempotency_key: str = Field(min_length=1)


class ActaBody(BaseModel):
    """Several of them."""

    acta: list[ActumBody]


def make_app(dsn: str) -> FastAPI:
    """Return the application."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncConnectionPool(
            dsn, min_size=16, max_size=16, kwargs={"autocommit": True, "row_factory": dict_row}
        ) as pool:
            app.state.pool = pool
            yield

    app = FastAPI(lifespan=lifespan)
    app.post("/chronica/{chronicum}/acta")(_post_one)
    app.post("/chronica/{chronicum}/acta/batch")(_post_many)
    return app


def _pool_of(request: Request) -> Pool:
    pool: Pool = request.app.state.pool
    return pool


async def _post_one(
    chronicum: str, body: ActumBody, response: Response, pool: Annotated[Any, Depends(_pool_of)]
) -> dict[str, Any]:
    wanted = _parameters(chronicum, body)
    async with pool.connection() as conn:
        row = await (await conn.execute(f"{_INSERT} RETURNING *", wanted)).fetchone()
        response.status_code = 201
        if row is None:
            row = await (await conn.execute(_FIRST, wanted)).fetchone()
            response.status_code = 200
    return dict(row)


async def _post_many(
    chronicum: str, body: ActaBody, pool: Annotated[Any, Depends(_pool_of)]
) -> dict[str, Any]:
    wanted = [_parameters(chronicum, actum) for actum in body.acta]
    async with pool.connection() as conn, conn.transaction(), conn.cursor() as cursor:
        await cursor.executemany(f"{_INSERT} RETURNING *", wanted, returning=True)
        results = []
        for parameters in wanted:
            row = await cursor.fetchone()
            status = 201
            if row is None:
                row, status = await (await conn.execute(_FIRST, parameters)).fetchone(), 200
            results.append({"status": status, "actum": row})
            cursor.nextset()
    return {"results": results}


def _parameters(chronicum: str, body: ActumBody) -> dict[str, str]:
    return {
        "chronicum": chronicum,
        "key": body.idempotency_key,
        **body.model_dump(exclude={"idempotency_key"}),
    }


if __name__ == "__main__":
    with psycopg.connect(sys.argv[1], autocommit=True) as conn:
        conn.execute(_TABLE)
    uvicorn.run(make_app(sys.argv[1]), port=int(sys.argv[2]), log_level="warning", access_log=False)
