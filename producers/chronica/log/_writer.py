"""LogWriter: appends submissions to the log and says where they stand.

What callers see. Behind it ``Encoder`` makes records, ``Lanes`` decides, ``Engine`` does.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

from chronica.acta import Actum, ChronicaError, random_id
from chronica.log._answers import Answer, Answers
from chronica.log._encoder import Encoded, Encoder
from chronica.log._engine import Engine
from chronica.log._errors import LogRefusedError, LogUnavailableError
from chronica.log._lane import Limits, Place, Record
from chronica.log._lanes import Lanes
from chronica.log._positions import Position
from chronica.log._producer import Producer
from chronica.log._record import Submission
from chronica.log._topics import TopicFacts, inspect_topic
from chronica.log._trouble import Failure, classify, describe, not_appended

__all__ = ["LogWriter"]

_QUEUE_BYTES_LIMIT: Final = 90 * 1024 * 1024
"""aiokafka puts all partitions' batches into one request, and Kafka's ``socket.request.max.bytes``
is 100 MiB: a larger one would be cut off and sent again for ever."""
_BACKOFF_FIRST_S: Final = 0.1
_BACKOFF_MAX_S: Final = 2.0
_ENCODED_AT_ONCE: Final = 512
"""So many records are encoded before the other tasks of the loop get a turn."""


class LogWriter:
    """Appends to one ingress topic, for one tenant.

    Args:
        client: keyword arguments of every aiokafka client (``Settings.kafka_client()``).
        topic: full name of the topic; it must exist.
        tenant: whose chronica these are.
        new_id: makes submission ids.
        deadline_s: how long an append may take; then its caller is told what is true by then.
        patience_s: an append that comes while Kafka has not answered for so long is refused at
            once, as not appended.
        linger_s: how long the first record of a batch waits for company; by default not at all,
            a batch is what came while the one before it was on its way.
        queue_bytes_max: what is queued and unresolved at most; when it is full, appends wait.
        batch_bytes_max: a batch of several records has no more.
        batch_records_max: nor more records.
        stop_s: how long ``stop`` takes at most.
        request_timeout_s: after so long without an answer a request is sent again.
        clock: monotonic seconds.
        jitter: a number from 0 to 1, for the waits between producers.
    """

    def __init__(
        self,
        client: Mapping[str, Any],
        *,
        topic: str,
        tenant: str,
        new_id: Callable[[], str] = random_id,
        deadline_s: float = 10.0,
        patience_s: float = 2.0,
        linger_s: float = 0.0,
        queue_bytes_max: int = 64 * 1024 * 1024,
        batch_bytes_max: int = 1024 * 1024,
        batch_records_max: int = 10_000,
        stop_s: float = 5.0,
        request_timeout_s: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        if not 0 < queue_bytes_max <= _QUEUE_BYTES_LIMIT:
            raise ValueError(f"queue_bytes_max must be from 1 to {_QUEUE_BYTES_LIMIT}.")
        self._topic = topic
        self._tenant = tenant
        self._new_id = new_id
        self._deadline_s = deadline_s
        self._queue_bytes_max = queue_bytes_max
        self._limits = Limits(
            batch_bytes_max=batch_bytes_max,
            batch_records_max=batch_records_max,
            linger_s=linger_s,
            stuck_after_s=3 * request_timeout_s,
            patience_s=patience_s,
        )
        self._stop_s = stop_s
        self._clock = clock
        self._jitter = jitter
        self._client = client
        self._new_producer = partial(Producer, client, topic, request_timeout_s)
        self._running: tuple[Engine, Encoder] | None = None
        self._stopping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connect, and learn the log's identity and its partitions.

        Raises:
            LogRefusedError: there is no such topic, or this writer may not write to it.
            LogUnavailableError: Kafka can't be reached.
        """
        if self._running is not None:
            raise RuntimeError("This writer was started before: make another one.")
        facts = await inspect_topic(self._client, self._topic)
        if facts is None:
            raise LogRefusedError(
                f"There is no topic {self._topic}: nothing was appended. Start Chronica once, "
                "which makes it, or mend CHRONICA_TOPIC_PREFIX."
            )
        producer = self._new_producer()
        try:
            await producer.start()
        except Exception as error:
            if classify(error) is Failure.DENIED:
                raise LogRefusedError(
                    f"Kafka does not let this writer write to {self._topic} ({describe(error)}): "
                    "nothing was appended; grant it Write on the topic."
                ) from error
            raise LogUnavailableError(
                f"Kafka shows the topic {self._topic} and gives no producer for it "
                f"({describe(error)}): nothing was appended; try again."
            ) from error
        self._running = self._run(facts, producer)

    def _run(self, facts: TopicFacts, producer: Producer) -> tuple[Engine, Encoder]:
        lanes = Lanes(
            facts.partitions,
            topic=self._topic,
            limits=self._limits,
            queue_bytes_max=self._queue_bytes_max,
            backoff=self._backoff,
        )
        engine = Engine(facts, lanes, producer, self._new_producer, self._clock, self._deadline_s)
        return engine, Encoder(self._tenant, facts.partitions, self._new_id)

    def _backoff(self, attempt: int) -> float:
        """The first new producer comes at once, the next ones after longer and longer waits."""
        if attempt == 1:
            return 0.0
        wait_s = min(_BACKOFF_MAX_S, _BACKOFF_FIRST_S * 2.0 ** min(attempt - 2, 16))
        return wait_s * (0.5 + self._jitter() / 2)

    async def stop(self) -> None:
        """Deliver what can be delivered, settle the rest, and close; bounded by ``stop_s``.

        May be repeated. Who still waits gets ``NotAppendedError`` or ``AppendUnknownError``.
        """
        if self._running is None:
            return
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._running[0].stop(self._stop_s))
        # A caller that is cancelled leaves the stopping to go on, in its own bounded time.
        await asyncio.shield(self._stopping)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    @property
    def log_id(self) -> str:
        """The identity of the log (32 hex digits)."""
        return self._parts()[0].topic.topic_id

    @property
    def queued_bytes(self) -> int:
        """What is queued or unresolved, in bytes."""
        return self._running[0].lanes.queued_bytes if self._running else 0

    @property
    def queued_records(self) -> int:
        """What is queued or unresolved, in records."""
        return self._running[0].lanes.queued_records if self._running else 0

    async def append(
        self,
        owner: str,
        actum: Actum,
        *,
        idempotency_key: str | None = None,
        expected_seq: int | None = None,
    ) -> Position:
        """Append an actum, and return its position once Kafka has it on all replicas in sync.

        Whether it is recorded is decided later, by the recorder. Nothing is read. The actum's
        ``id``, ``at`` and ``seq`` are ignored.

        Raises:
            InvalidOwnerIDError: the owner is empty or unusable.
            InvalidActumError: a field breaks a rule, or Kafka refuses this record.
            InvalidIdempotencyKeyError: the key is empty or unusable.
            NotAppendedError: nothing was recorded; try again.
            AppendUnknownError: it may be in the log; retry with the error's ``retry_key``.
            LogRefusedError: Kafka does not let this writer write, or the log is not what it was.
        """
        engine, encoder = self._parts()
        return await _append(engine, encoder.actum(owner, actum, idempotency_key, expected_seq))

    async def append_submission(self, submission: Submission) -> Position:
        """Append a submission that is valid and has its id; like ``append`` besides."""
        engine, encoder = self._parts()
        return await _append(engine, encoder.submission(submission))

    async def append_many(
        self, owner: str, items: Iterable[tuple[Actum, str | None]]
    ) -> list[Position | Exception]:
        """Append many acta, each with its idempotency key or None, in their order.

        Not atomic: each has its own answer, a position or the error that ``append`` would raise.
        """
        engine, encoder = self._parts()
        encoders = (partial(encoder.actum, owner, actum, key, None) for actum, key in items)
        return await _append_all(engine, encoders)

    async def append_submissions(
        self, submissions: Iterable[Submission]
    ) -> list[Position | Exception]:
        """Append many submissions that are valid and have their ids; like ``append_many``."""
        engine, encoder = self._parts()
        return await _append_all(engine, (partial(encoder.submission, s) for s in submissions))

    def _parts(self) -> tuple[Engine, Encoder]:
        if self._running is None:
            raise RuntimeError("Start the writer first: async with LogWriter(…) as writer.")
        return self._running


async def _append(engine: Engine, encoded: Encoded) -> Position:
    answers = Answers()
    record = engine.enqueue(answers, encoded)
    try:
        (answer,) = await answers.all()
    except asyncio.CancelledError:
        engine.cancel([record])
        raise
    if isinstance(answer, Exception):
        raise answer
    return answer


async def _append_all(engine: Engine, encoders: Iterable[Callable[[], Encoded]]) -> list[Answer]:
    answers = Answers()
    unresolved: deque[Record] = deque()
    given_up = False
    try:
        for number, encode in enumerate(encoders, 1):
            try:
                encoded = encode()
            except ChronicaError as error:
                answers.add(error)
                continue
            if given_up:
                # One deadline is enough to wait for room, and none may overtake that one.
                answers.add(not_appended("the writer's queue stayed full"))
                continue
            record = engine.enqueue(answers, encoded)
            unresolved.append(record)
            while record.place is Place.WAITING:
                await engine.next_flush()
                given_up = answers.not_appended(record.index)
            if number % _ENCODED_AT_ONCE == 0:
                await asyncio.sleep(0)
                while unresolved and unresolved[0].place is Place.GONE:
                    unresolved.popleft()
        return await answers.all()
    except asyncio.CancelledError:
        engine.cancel(unresolved)
        raise
