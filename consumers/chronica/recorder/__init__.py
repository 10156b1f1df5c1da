"""The recorder: the one place that decides (docs/ARCHITECTURE.md, section 3)."""

from chronica.recorder._decide import (
    Created,
    Decision,
    Digests,
    Duplicate,
    Invalid,
    Recorded,
    Refused,
    State,
    decide,
)
from chronica.recorder._recorder import Recorder
from chronica.recorder._work import Limits

__all__ = [
    "Created",
    "Decision",
    "Digests",
    "Duplicate",
    "Invalid",
    "Limits",
    "Recorded",
    "Recorder",
    "Refused",
    "State",
    "decide",
]
