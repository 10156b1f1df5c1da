"""The Postgres schema, and every SQL statement: batches in, windows and outcomes out."""

from chronica.projections._api_keys import (
    KEYS_CHANNEL,
    ApiKey,
    create_key,
    read_keys,
    revoke_key,
)
from chronica.projections._batches import CHANNEL, look_up, write_batch
from chronica.projections._claims import (
    Sharing,
    claim_partition,
    end_hung_sessions,
    enter_membership,
    live_generation,
    pin_topic,
    pin_verdict,
    sharing,
)
from chronica.projections._connect import connect, hang_up, session, within
from chronica.projections._digests import chronicum_digest, key_digest, submission_digest
from chronica.projections._errors import (
    ClaimLostError,
    DataRefusedError,
    PostgresUnavailableError,
    SchemaRefusedError,
    sorted_error,
)
from chronica.projections._facts import DatabaseFacts, count_dead_letters, read_facts
from chronica.projections._followed_keys import FollowedKeys
from chronica.projections._following import Followed, Following, read_after
from chronica.projections._migrate import check_schema, migrate, schema_head
from chronica.projections._outcomes import Outcome, Place, read_outcomes
from chronica.projections._tables import (
    ActumRow,
    Batch,
    ClaimRow,
    DeadLetterRow,
    Found,
    HeadRow,
    KeptRow,
    OutcomeRow,
    Wanted,
    chronicum_number,
)
from chronica.projections._watermarks import Watermarks
from chronica.projections._window_sql import WINDOW_SESSION
from chronica.projections._window_streams import stream_rest
from chronica.projections._windows import (
    ChronicumView,
    StoredActum,
    Window,
    WindowRest,
    read_window,
)

__all__ = [
    "CHANNEL",
    "KEYS_CHANNEL",
    "WINDOW_SESSION",
    "ActumRow",
    "ApiKey",
    "Batch",
    "ChronicumView",
    "ClaimLostError",
    "ClaimRow",
    "DataRefusedError",
    "DatabaseFacts",
    "DeadLetterRow",
    "Followed",
    "FollowedKeys",
    "Following",
    "Found",
    "HeadRow",
    "KeptRow",
    "Outcome",
    "OutcomeRow",
    "Place",
    "PostgresUnavailableError",
    "SchemaRefusedError",
    "Sharing",
    "StoredActum",
    "Wanted",
    "Watermarks",
    "Window",
    "WindowRest",
    "check_schema",
    "chronicum_digest",
    "chronicum_number",
    "claim_partition",
    "connect",
    "count_dead_letters",
    "create_key",
    "end_hung_sessions",
    "enter_membership",
    "hang_up",
    "key_digest",
    "live_generation",
    "look_up",
    "migrate",
    "pin_topic",
    "pin_verdict",
    "read_after",
    "read_facts",
    "read_keys",
    "read_outcomes",
    "read_window",
    "revoke_key",
    "schema_head",
    "session",
    "sharing",
    "sorted_error",
    "stream_rest",
    "submission_digest",
    "within",
    "write_batch",
]
