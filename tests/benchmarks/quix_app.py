"""The quixstreams application that the recorder is measured against; it has a venv of its own.

As its documentation has it: exactly-once processing, a stateful filter that knows each key for ever
(RocksDB, with a changelog topic), and the PostgreSQL sink, which ignores what a crash makes it
write twice. Arguments: the settings as one JSON object. Run with ``python -P``.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from quixstreams import Application, State, message_context
from quixstreams.sinks.community.postgresql import PostgreSQLSink

_COMMIT_EVERY = 10_000


def main(settings: dict[str, Any]) -> None:
    """Run until it is stopped."""
    app = Application(
        broker_address=settings["kafka"],
        consumer_group=settings["group"],
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        commit_every=_COMMIT_EVERY,
        state_dir=settings["state_dir"],
        loglevel="WARNING",
    )
    topic = app.topic(settings["topic"], key_deserializer="str", value_deserializer="json")
    stream = app.dataframe(topic).filter(_is_first, stateful=True).apply(_with_place)
    stream.sink(
        PostgreSQLSink(
            **settings["postgres"],
            table_name=settings["table"],
            schema_auto_update=False,
            include_metadata=False,
            on_conflict_do_nothing=True,
        )
    )
    app.run()


def _is_first(value: dict[str, Any], state: State) -> bool:
    """Tell whether this key is new in its chronicum, which is the message's key."""
    key = value["key"]
    if state.exists(key):
        return False
    state.set(key, 1)
    return True


def _with_place(value: dict[str, Any]) -> dict[str, Any]:
    return {**value, "place": message_context().offset}


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
