"""Context windows: which acta of a chronicum an agent gets.

Pure functions, so that every store gives the same window: the memory store selects with ``select``,
the log store selects in SQL and finishes with ``whole_calls``. Nothing here ever reorders.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from typing import Protocol, TypeVar

from chronica.acta._errors import InvalidWindowError
from chronica.acta._models import ActorKind, Actum, ActumKind
from chronica.acta._ports import WindowQuery

__all__ = ["CallLike", "normal_query", "select", "validate_query", "whole_calls"]


class CallLike(Protocol):
    """What ``whole_calls`` has to know of an actum; any row type with these two will do."""

    @property
    def kind(self) -> str:
        """One of the texts of ``ActumKind``."""
        ...

    @property
    def call_id(self) -> str | None:
        """What ties a tool response to its request, if anything does."""
        ...


CallT = TypeVar("CallT", bound=CallLike)
EnumT = TypeVar("EnumT", bound=StrEnum)


def validate_query(query: WindowQuery) -> None:
    """Check a query before any store is touched.

    Raises:
        InvalidWindowError: an option is out of range or unknown, or two of them contradict.
    """
    kinds = _members("kinds", query.kinds, ActumKind)
    _members("actor_kinds", query.actor_kinds, ActorKind)
    _check_int("last_n", query.last_n)
    if query.max_chars is not None:
        _check_int("max_chars", query.max_chars)
        if query.max_chars < 0:
            raise InvalidWindowError(
                f"max_chars is {query.max_chars}: give 0 or more code points, or None for no limit."
            )
    if query.whole_calls:
        tools = {ActumKind.TOOL_REQUEST, ActumKind.TOOL_RESPONSE} & set(kinds or ())
        if len(tools) == 1:
            raise InvalidWindowError(
                "whole_calls keeps requests with their responses, but kinds names only "
                f"{tools.pop()}: name both tool kinds or neither."
            )


def normal_query(
    *,
    last_n: int,
    kinds: Collection[ActumKind | str] | None,
    actor_kinds: Collection[ActorKind | str] | None,
    max_chars: int | None,
    whole_calls: bool,
) -> WindowQuery:
    """Return a valid query with real enums in it, of options that may name kinds as plain text.

    Raises:
        InvalidWindowError: an option is out of range or unknown, or two of them contradict.
    """
    # A copy first: what can be walked only once would be used up by the check.
    query = WindowQuery(
        kinds=_members("kinds", kinds, ActumKind),
        actor_kinds=_members("actor_kinds", actor_kinds, ActorKind),
        last_n=last_n,
        max_chars=max_chars,
        whole_calls=whole_calls,
    )
    validate_query(query)
    return query


def select(acta: Sequence[Actum], query: WindowQuery) -> list[Actum]:
    """Return the window of a chronicum's acta, oldest first.

    Filters, then ``last_n``, then ``max_chars``, then ``whole_calls``. The query is valid.
    """
    kinds = frozenset(query.kinds or ActumKind)
    actor_kinds = frozenset(query.actor_kinds or ActorKind)
    chars_left = query.max_chars
    window: list[Actum] = []
    for actum in reversed(acta):
        if actum.kind not in kinds or actum.actor_kind not in actor_kinds:
            continue
        if chars_left is not None:
            chars_left -= len(actum.content)
            if chars_left < 0:
                break
        window.append(actum)
        # Checked after the append: what is not positive is never reached and means no limit.
        if len(window) == query.last_n:
            break
    window.reverse()
    return whole_calls(window) if query.whole_calls else window


def whole_calls(acta: Iterable[CallT]) -> list[CallT]:
    """Return the acta without the tool requests and responses that have no partner among them.

    A response with a call id pairs with the oldest earlier unanswered request of that id, or with
    none. A response without one pairs with the oldest earlier request that is left after that.
    Messages and thoughts stay. Linear in the number of acta.
    """
    rows = list(acta)
    paired = _pairs_by_call_id(rows)
    _add_pairs_by_order(rows, paired)
    tools = (ActumKind.TOOL_REQUEST, ActumKind.TOOL_RESPONSE)
    return [row for i, row in enumerate(rows) if row.kind not in tools or i in paired]


def _pairs_by_call_id(rows: Sequence[CallLike]) -> set[int]:
    paired: set[int] = set()
    unanswered: dict[str, deque[int]] = {}
    for i, row in enumerate(rows):
        if row.call_id is None:
            continue
        if row.kind == ActumKind.TOOL_REQUEST:
            unanswered.setdefault(row.call_id, deque()).append(i)
        elif row.kind == ActumKind.TOOL_RESPONSE and unanswered.get(row.call_id):
            paired |= {unanswered[row.call_id].popleft(), i}
    return paired


def _add_pairs_by_order(rows: Sequence[CallLike], paired: set[int]) -> None:
    # The ids come first: a request that its own response names, however late, is not free here.
    unanswered: deque[int] = deque()
    for i, row in enumerate(rows):
        if i in paired:
            continue
        if row.kind == ActumKind.TOOL_REQUEST:
            unanswered.append(i)
        elif row.kind == ActumKind.TOOL_RESPONSE and row.call_id is None and unanswered:
            paired |= {unanswered.popleft(), i}


def _members(name: str, kinds: object, enum: type[EnumT]) -> tuple[EnumT, ...] | None:
    if kinds is None:
        return None
    allowed = ", ".join(enum)
    # One text is a collection of letters, and a likely slip: kinds="message".
    if isinstance(kinds, str) or not isinstance(kinds, Iterable):
        raise InvalidWindowError(f"{name} is {kinds!r}: give a collection of {allowed}.")
    members = []
    for kind in kinds:
        if kind not in list(enum):
            raise InvalidWindowError(f"{name} names {kind!r}, which is not one of {allowed}.")
        members.append(enum(kind))
    return tuple(members)


def _check_int(name: str, number: object) -> None:
    if isinstance(number, bool) or not isinstance(number, int):
        raise InvalidWindowError(f"{name} is {number!r}: give an integer.")
