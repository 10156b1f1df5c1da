"""From an actum of a caller's to the record that is appended for it: checked, named, encoded."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from chronica.acta import (
    Actum,
    InvalidActumError,
    dump_json,
    validate_actum,
    validate_expected_seq,
    validate_key,
    validate_owner,
)
from chronica.log._decode import check_nesting
from chronica.log._keys import partition_key, partition_of
from chronica.log._record import (
    VALUE_BYTES_MAX,
    InvalidRecordError,
    Submission,
    encode_submission,
)

__all__ = ["Encoded", "Encoder"]


class Encoded(NamedTuple):
    """A record, where it goes, and the key with which a retry of it is safe."""

    partition: int
    key: bytes
    value: bytes
    retry_key: str


class Encoder:
    """Makes the records of one tenant.

    Args:
        tenant: whose chronica these are.
        partitions: how many the topic has.
        new_id: makes submission ids.
    """

    def __init__(self, tenant: str, partitions: int, new_id: Callable[[], str]) -> None:
        self._tenant = tenant
        self._partitions = partitions
        self._new_id = new_id

    def actum(
        self, owner: str, actum: Actum, idempotency_key: str | None, expected_seq: int | None
    ) -> Encoded:
        """Return the record of an actum, under a new id.

        Raises:
            InvalidOwnerIDError: the owner is empty or unusable.
            InvalidActumError: a field of the actum breaks a rule, or ``expected_seq`` does.
            InvalidIdempotencyKeyError: the key is empty or unusable.
        """
        validate_owner(owner)
        validate_actum(actum)
        validate_expected_seq(expected_seq)
        validate_key(idempotency_key)
        metadata = None if actum.metadata is None else _metadata(actum)
        return self.submission(
            Submission(
                type="actum",
                id=self._new_id(),
                tenant=self._tenant,
                chronicum=actum.chronicum_id,
                owner=owner,
                key=idempotency_key,
                expected_seq=expected_seq,
                # An enum's value: formatting the enum itself is several times slower.
                kind=str(actum.kind),
                actor_kind=str(actum.actor_kind),
                actor=actum.actor,
                content=actum.content,
                call_id=actum.call_id,
                metadata=metadata,
            )
        )

    def submission(self, submission: Submission) -> Encoded:
        """Return the record of a submission that is valid and has its id.

        Raises:
            InvalidActumError: the record is too large, or its metadata nests too deep.
        """
        value = encode_submission(submission)
        if len(value) > VALUE_BYTES_MAX:
            raise InvalidActumError(
                "content",
                f"and all else makes a record of {len(value)} bytes: it must have at most "
                f"{VALUE_BYTES_MAX}",
            )
        try:
            check_nesting(value)
        except InvalidRecordError as error:
            raise InvalidActumError("metadata", f"can't be recorded: {error.detail}") from None
        key = partition_key(submission.tenant, submission.chronicum)
        return Encoded(
            partition_of(key, self._partitions), key, value, submission.key or submission.id
        )


def _metadata(actum: Actum) -> str:
    try:
        return dump_json(
            actum.metadata if type(actum.metadata) is dict else dict(actum.metadata or {})
        )
    except (TypeError, ValueError) as error:
        raise InvalidActumError("metadata", f"must be a JSON object ({error})") from None
