"""Positions that clients hand back."""

from __future__ import annotations

from fastapi import HTTPException

from chronica.api._backend import Opened
from chronica.log import InvalidPositionError, Position

__all__ = ["position_of"]


def position_of(opened: Opened, token: str) -> Position:
    """Return the position of a token.

    Raises:
        HTTPException: 422, it is none, or one of another log.
    """
    try:
        position = Position.parse(token)
    except InvalidPositionError as refused:
        raise HTTPException(422, str(refused)) from None
    if position.log_id != opened.facts.topic_id:
        raise HTTPException(422, "This position is of another log: it says nothing here.")
    return position
