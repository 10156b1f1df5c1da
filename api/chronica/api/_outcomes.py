"""The route that says what became of a write."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException, Request, Response

from chronica.acta import dump_json
from chronica.api._answers import actum_json, json_response
from chronica.api._auth import caller_of
from chronica.api._backend import Opened, backend_of
from chronica.api._positions import position_of
from chronica.api._requests import only_known, owner_of
from chronica.log import Entry
from chronica.projections import Outcome

__all__ = ["router"]

router = APIRouter(prefix="/v1/outcomes", tags=["acta"])


@router.get("/{position}")
async def get_outcome(request: Request, position: str) -> Response:
    """Say what became of the write at a position: of the owner's own only.

    ``pending``, ``recorded`` (with the actum), ``duplicate`` (with the first one) or ``refused``
    (with the reason). Answers at once.
    """
    caller = await caller_of(request, "read")
    owner = owner_of(request)
    only_known(request)
    opened = backend_of(request).opened
    entries = position_of(opened, position).entries
    if len(entries) != 1:
        raise HTTPException(422, "This position is of several records: ask for those of one.")
    (entry,) = entries
    if entry.topic != "acta" or entry.partition >= opened.facts.partitions:
        raise _nothing_there()
    place = (entry.partition, entry.offset)
    outcome = (await opened.reader.outcomes([place], timeout_s=0)).get(place)
    if not await _is_theirs(opened, entry, outcome, caller.tenant, owner):
        raise _nothing_there()
    return json_response(_outcome_json(outcome), headers={"Cache-Control": "no-store"})


async def _is_theirs(
    opened: Opened, entry: Entry, outcome: Outcome | None, tenant: str, owner: str
) -> bool:
    if outcome is not None and outcome.owner is not None:
        return (outcome.tenant, outcome.owner) == (tenant, owner)
    # What has no chronicum (it was refused, or is not decided yet) only its record tells whose.
    if entry.offset >= await opened.reader.ends.end(entry.partition):
        return False
    submission = await opened.peek.submission(entry.partition, entry.offset)
    return submission is not None and (submission.tenant, submission.owner) == (tenant, owner)


def _outcome_json(outcome: Outcome | None) -> str:
    if outcome is None:
        return '{"status":"pending"}'
    if outcome.actum is not None and outcome.status in ("recorded", "duplicate"):
        return f'{{"status":"{outcome.status}","actum":{actum_json(outcome.actum)}}}'
    if outcome.status == "recorded":  # of a chronicum that was created without acta
        return '{"status":"recorded"}'
    fields: dict[str, object] = {"status": "refused", "reason": outcome.reason}
    if outcome.current_seq is not None:
        fields["current_seq"] = outcome.current_seq
    return dump_json(fields)


def _nothing_there() -> HTTPException:
    return HTTPException(404, "There is no such write of this owner.")
