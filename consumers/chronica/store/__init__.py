"""The log store behind ``Chronicarius.connect()``: appends through Kafka, reads from Postgres."""

from chronica.store._channel import Event
from chronica.store._connect import connect, resolve
from chronica.store._feed import Feed, Follower
from chronica.store._reader import Consistency, Reader
from chronica.store._store import LogStore, actum_of, decision_of
from chronica.store._submitter import Answer, Submitter

__all__ = [
    "Answer",
    "Consistency",
    "Event",
    "Feed",
    "Follower",
    "LogStore",
    "Reader",
    "Submitter",
    "actum_of",
    "connect",
    "decision_of",
    "resolve",
]
