"""The log: topics, the record format, positions, and LogWriter, which appends (rules 3.1 and 3.2).

The only package that speaks Kafka besides the shell of the recorder.
"""

from chronica.log._consumers import start_consumer, stop_consumer
from chronica.log._decode import decode_submission
from chronica.log._ends import LogEnds
from chronica.log._errors import LogRefusedError, LogUnavailableError
from chronica.log._keys import partition_key, partition_of
from chronica.log._peek import LogPeek
from chronica.log._positions import Entry, InvalidPositionError, Position
from chronica.log._record import (
    VALUE_BYTES_MAX,
    InvalidRecordError,
    Submission,
    encode_submission,
)
from chronica.log._topics import (
    MESSAGE_BYTES_MAX,
    PARTITIONS_MAX,
    TopicFacts,
    ensure_topic,
    inspect_topic,
)
from chronica.log._writer import LogWriter

__all__ = [
    "MESSAGE_BYTES_MAX",
    "PARTITIONS_MAX",
    "VALUE_BYTES_MAX",
    "Entry",
    "InvalidPositionError",
    "InvalidRecordError",
    "LogEnds",
    "LogPeek",
    "LogRefusedError",
    "LogUnavailableError",
    "LogWriter",
    "Position",
    "Submission",
    "TopicFacts",
    "decode_submission",
    "encode_submission",
    "ensure_topic",
    "inspect_topic",
    "partition_key",
    "partition_of",
    "start_consumer",
    "stop_consumer",
]
