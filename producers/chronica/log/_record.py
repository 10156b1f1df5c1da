"""The record: what one submission looks like on the ingress topics (rule 3.2).

A record's value is one JSON object in UTF-8. Version 1, field by field:

==============  ========  ======================================================================
``type``        required  ``actum`` or ``create`` (a chronicum without acta yet)
``version``     required  1
``tenant``      required  text
``chronicum``   required  text; with the tenant it is the record's key
``id``          optional  text; the submission's id and the id of the actum it may become; one that
                          is missing is derived from the record's position
``owner``       optional  text; null or missing only in a plain ``record``, which carries no owner
                          and is refused if the chronicum is missing; ``create`` needs it
``key``         optional  text; the caller's idempotency key
``expected_seq``optional  integer 0..2^63-1; record only if it is the chronicum's last seq
``enc``         optional  reserved for the id of an encryption key: null or missing in version 1
``kind``        actum     ``message``, ``thought``, ``tool_request``, ``tool_response``
``actor_kind``  actum     ``human``, ``agent``, ``system``
``actor``       actum     text
``payload``     actum     object: ``content`` (string, may be empty in the tool kinds), ``call_id``
                          (text, optional), ``metadata`` (object, optional)
==============  ========  ======================================================================

*Text* is a string of 1 to 1,024 code points. The value has at most 16 MiB and nests at most 256
deep. Unknown fields are ignored. Strings may hold anything JSON can say, NUL and lone surrogates
(as escapes) included. ``metadata`` is kept as the source text it came in.

The rules belong to the version: a record is decided by its version's rules for ever, so nothing
here may change for version 1 (``tests/golden`` pins it).
"""

from __future__ import annotations

from dataclasses import dataclass
from json.encoder import encode_basestring_ascii
from typing import Final, Literal

__all__ = [
    "INT_MAX",
    "NESTING_MAX",
    "TEXT_CODE_POINTS_MAX",
    "VALUE_BYTES_MAX",
    "InvalidRecordError",
    "Submission",
    "encode_submission",
]

TEXT_CODE_POINTS_MAX: Final = 1024
"""Longest text of a version 1 record, in code points."""
INT_MAX: Final = 2**63 - 1
VALUE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Largest value of a version 1 record, in bytes."""
NESTING_MAX: Final = 256
"""Deepest nesting of arrays and objects in a version 1 record, the outermost object included."""


class InvalidRecordError(ValueError):
    """The record can't be decided: it becomes a dead letter.

    Attributes:
        reason: a stable word for machines.
        detail: a sentence for people.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One submission as it stands in the log, decoded and valid.

    The fields are those of the record (see the module); ``metadata`` is JSON source text.
    """

    type: Literal["actum", "create"]
    id: str
    tenant: str
    chronicum: str
    owner: str | None = None
    key: str | None = None
    expected_seq: int | None = None
    kind: str = ""
    actor_kind: str = ""
    actor: str = ""
    content: str = ""
    call_id: str | None = None
    metadata: str | None = None


def encode_submission(submission: Submission) -> bytes:
    """Return the value of the version 1 record of a submission.

    The text is ASCII but for ``metadata``, which is spliced in as it came. The submission's
    fields are taken as they are: validate before.
    """
    text = encode_basestring_ascii
    s = submission
    parts = [f'{{"type":"{s.type}","version":1,"id":{text(s.id)}']
    parts.append(f',"tenant":{text(s.tenant)},"chronicum":{text(s.chronicum)}')
    if s.owner is not None:
        parts.append(f',"owner":{text(s.owner)}')
    if s.key is not None:
        parts.append(f',"key":{text(s.key)}')
    if s.expected_seq is not None:
        parts.append(f',"expected_seq":{s.expected_seq}')
    if s.type == "actum":
        parts.append(
            f',"kind":{text(s.kind)},"actor_kind":{text(s.actor_kind)},"actor":{text(s.actor)}'
            f',"payload":{{"content":{text(s.content)}'
        )
        if s.call_id is not None:
            parts.append(f',"call_id":{text(s.call_id)}')
        if s.metadata is not None:
            parts.append(f',"metadata":{s.metadata}')
        parts.append("}")
    parts.append("}")
    return "".join(parts).encode()
