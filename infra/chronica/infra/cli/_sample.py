"""The sample conversation of ``chronica demo``: one human, three agents, two tools."""

from __future__ import annotations

import json

from chronica.acta import ActorKind, Actum, ActumKind

__all__ = ["BOOKER", "OWNER", "STRANGER", "sample_acta"]

OWNER = "ardian"
STRANGER = "mallory"
BOOKER = "booking-agent"

_AGENTS = ("concierge", "search-agent", BOOKER)
_PLACES = [
    {"name": "Osteria Lungofiume", "river_m": 40, "vegetarian": True, "free": ["19:30", "21:00"]},
    {"name": "Green Quay", "river_m": 120, "vegetarian": True, "free": ["18:00"]},
]
_WISH = {"day": "Friday", "people": 6, "near": "river", "vegetarian": True}
_BOOKING = {"place": "Osteria Lungofiume", "day": "Friday", "time": "19:30", "people": 6}
_BOOKED = {"confirmed": True, "reference": "RF-2291"}

# Who, what kind, content, id of the call.
_STEPS: tuple[tuple[str, ActumKind, object, str | None], ...] = (
    (OWNER, ActumKind.MESSAGE, "A table for six on Friday, by the river; two eat no meat.", None),
    ("concierge", ActumKind.THOUGHT, "First find places, then let Ardian choose.", None),
    ("concierge", ActumKind.MESSAGE, "I let the search agent look for places.", None),
    ("search-agent", ActumKind.TOOL_REQUEST, {"find_places": _WISH}, "call-1"),
    ("places-api", ActumKind.TOOL_RESPONSE, _PLACES, "call-1"),
    ("search-agent", ActumKind.THOUGHT, "Green Quay is free too early for most.", None),
    (
        "search-agent",
        ActumKind.MESSAGE,
        "Osteria Lungofiume at 19:30 or 21:00, or Green Quay at 18:00.",
        None,
    ),
    (OWNER, ActumKind.MESSAGE, "The Osteria, half past seven.", None),
    ("concierge", ActumKind.MESSAGE, "Booking agent: the Osteria, Friday 19:30, for six.", None),
    (BOOKER, ActumKind.TOOL_REQUEST, {"book_table": _BOOKING}, "call-2"),
    ("bookings-api", ActumKind.TOOL_RESPONSE, _BOOKED, "call-2"),
    (BOOKER, ActumKind.MESSAGE, "Booked: Friday 19:30, six people, reference RF-2291.", None),
)


def sample_acta(chronicum_id: str) -> list[Actum]:
    """Return the conversation, in order."""
    return [
        Actum(
            chronicum_id=chronicum_id,
            kind=kind,
            actor_kind=_actor_kind(actor),
            actor=actor,
            content=content if isinstance(content, str) else json.dumps(content),
            call_id=call_id,
        )
        for actor, kind, content, call_id in _STEPS
    ]


def _actor_kind(actor: str) -> ActorKind:
    if actor == OWNER:
        return ActorKind.HUMAN
    return ActorKind.AGENT if actor in _AGENTS else ActorKind.SYSTEM
