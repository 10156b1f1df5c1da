"""A whole store in one process, for tests and development.

It keeps everything, idempotency keys included, for as long as it lives: it grows without bound. It
belongs to one event loop. No method awaits anything, so each is atomic there, and forty concurrent
writes are forty writes one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

from chronica.acta._clock import utc_now
from chronica.acta._errors import (
    ChronicumExistsError,
    ChronicumNotFoundError,
    SequenceConflictError,
)
from chronica.acta._json import dump_json, load_json
from chronica.acta._models import Actum, Chronicum
from chronica.acta._ports import Decision, WindowQuery
from chronica.acta._window import select

__all__ = ["MemoryStore"]


@dataclass(slots=True)
class _Session:
    """One chronicum, what was recorded in it, and which seq each key recorded."""

    chronicum: Chronicum
    acta: list[Actum] = field(default_factory=list)
    metadata: list[str | None] = field(default_factory=list)
    seq_by_key: dict[str, int] = field(default_factory=dict)


class MemoryStore:
    """Chronica in memory: ``Store``, ``IdempotentStore`` and ``DecidingStore``.

    Args:
        clock: where ``at`` and ``created_at`` come from; UTC.
    """

    def __init__(self, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._clock = clock
        self._sessions: dict[str, _Session] = {}

    async def create(self, chronicum: Chronicum) -> Chronicum:
        """Create a chronicum, stamped with this store's clock.

        Raises:
            ChronicumExistsError: the id is taken, by whomever.
        """
        if chronicum.id in self._sessions:
            raise ChronicumExistsError(chronicum.id)
        session = _new_session(chronicum.id, chronicum.owner_id, self._clock())
        self._sessions[chronicum.id] = session
        return session.chronicum

    async def record(self, actum: Actum) -> Actum:
        """Append an actum; stamp ``at`` and ``seq``.

        Raises:
            ChronicumNotFoundError: its chronicum does not exist.
        """
        return _record(self._session(actum.chronicum_id), actum, None, self._clock())

    async def record_idempotent(self, actum: Actum, key: str) -> Actum:
        """Append an actum, or return the one that the key recorded first.

        Raises:
            ChronicumNotFoundError: its chronicum does not exist.
        """
        session = self._session(actum.chronicum_id)
        if key in session.seq_by_key:
            return _actum(session, session.seq_by_key[key])
        return _record(session, actum, key, self._clock())

    async def submit(
        self, owner: str, actum: Actum, *, key: str | None, expected_seq: int | None
    ) -> Decision:
        """Guard the owner, dedupe, check ``expected_seq``, create if missing, record.

        Raises:
            ChronicumNotFoundError: the chronicum belongs to another owner.
            SequenceConflictError: its last seq is not ``expected_seq``.
        """
        session = self._sessions.get(actum.chronicum_id)
        if session is not None and session.chronicum.owner_id != owner:
            raise ChronicumNotFoundError(actum.chronicum_id)
        if session is not None and key is not None and key in session.seq_by_key:
            return Decision(actum=_actum(session, session.seq_by_key[key]), duplicate=True)
        current_seq = 0 if session is None else session.chronicum.last_seq
        if expected_seq is not None and expected_seq != current_seq:
            raise SequenceConflictError(
                actum.chronicum_id, expected_seq=expected_seq, current_seq=current_seq
            )
        now = self._clock()
        if session is None:
            session = _new_session(actum.chronicum_id, owner, now)
        stored = _record(session, actum, key, now)
        # Last, so that an actum that cannot be recorded creates nothing.
        self._sessions[actum.chronicum_id] = session
        return Decision(actum=stored, duplicate=False)

    async def acta(self, chronicum_id: str, query: WindowQuery) -> list[Actum]:
        """Return the window, oldest first.

        Raises:
            ChronicumNotFoundError: the chronicum does not exist.
        """
        session = self._session(chronicum_id)
        return [_actum(session, actum.seq) for actum in select(session.acta, query)]

    async def get(self, chronicum_id: str) -> Chronicum:
        """Return the chronicum.

        Raises:
            ChronicumNotFoundError: it does not exist.
        """
        return self._session(chronicum_id).chronicum

    def _session(self, chronicum_id: str) -> _Session:
        session = self._sessions.get(chronicum_id)
        if session is None:
            raise ChronicumNotFoundError(chronicum_id)
        return session


def _new_session(chronicum_id: str, owner: str, now: datetime) -> _Session:
    return _Session(
        Chronicum(id=chronicum_id, owner_id=owner, created_at=now, last_activity_at=now)
    )


def _record(session: _Session, actum: Actum, key: str | None, now: datetime) -> Actum:
    # Metadata is kept as text: no object is shared with the caller in either direction, and
    # unlike a deep copy it takes any depth that JSON takes. First, because it may raise.
    metadata = None if actum.metadata is None else dump_json(dict(actum.metadata))
    seq = len(session.acta) + 1
    session.acta.append(replace(actum, at=now, seq=seq, metadata=None))
    session.metadata.append(metadata)
    if key is not None:
        session.seq_by_key[key] = seq
    latest = max(now, session.chronicum.last_activity_at)
    session.chronicum = replace(session.chronicum, last_activity_at=latest, last_seq=seq)
    return _actum(session, seq)


def _actum(session: _Session, seq: int) -> Actum:
    actum, metadata = session.acta[seq - 1], session.metadata[seq - 1]
    return actum if metadata is None else replace(actum, metadata=load_json(metadata))
