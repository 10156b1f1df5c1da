"""LogWriter's lanes against a broker that loses, repeats, delays and refuses; seeded.

The broker keeps sequences as Kafka does for idempotent producers; the producer counts them as
aiokafka does, for batches that fail for good as well. A run that fails names its seed:
``CHRONICA_SEED=<n>`` runs that one alone.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass, field
from random import Random

import pytest

from chronica.acta import AppendUnknownError, InvalidActumError, NotAppendedError
from chronica.log._errors import LogRefusedError
from chronica.log._lane import Acked, Limits, Place, Record, Replace, Send, Settle
from chronica.log._lanes import Lanes
from chronica.log._trouble import Failure

SEEDS = 20_000
PARTITIONS = 2
DEADLINE_S = 10.0
REMEMBERED = 5  # batches a broker knows of each producer

Answer = int | Failure


@dataclass(eq=False)
class Request:
    """A produce request on the wire; it may arrive late, again, or never."""

    pid: int
    partition: int
    sequence: int
    values: list[bytes]
    send: Send


@dataclass
class Broker:
    """One broker's partitions, with the sequence rules of idempotent producers."""

    logs: list[list[bytes]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])
    known: dict[tuple[int, int], list[tuple[int, int, int]]] = field(default_factory=dict)

    def append(self, request: Request) -> Answer:
        if any(value.startswith(b"too large") for value in request.values):
            return Failure.RECORD
        if any(value.startswith(b"invalid") for value in request.values):
            return Failure.UNCLEAR
        known = self.known.setdefault((request.pid, request.partition), [])
        count = len(request.values)
        for sequence, length, offset in known[-REMEMBERED:]:
            if (sequence, length) == (request.sequence, count):
                return offset
        if known and request.sequence != known[-1][0] + known[-1][1]:
            # A duplicate that is too old to be remembered has no offset to answer with.
            return -1 if request.sequence < known[-1][0] else Failure.DOUBT
        log = self.logs[request.partition]
        known.append((request.sequence, count, len(log)))
        log.extend(request.values)
        return known[-1][2]


class Writer:
    """One life of a writer: lanes, the producer of the moment, and what its callers were told."""

    def __init__(self, number: int, rng: Random) -> None:
        self.number = number
        self.lanes = Lanes(
            PARTITIONS,
            topic="t.acta",
            limits=Limits(
                batch_bytes_max=rng.choice([200, 1000]),
                batch_records_max=rng.choice([1, 3, 10]),
                linger_s=rng.choice([0.0, 0.0, 0.3]),
                stuck_after_s=rng.choice([3.0, 30.0]),
                patience_s=rng.choice([0.5, 2.0, 1000.0]),
            ),
            queue_bytes_max=rng.choice([300, 1500, 100_000]),
            backoff=lambda attempt: min(2.0, 0.1 * attempt),
        )
        self.pid = number * 1000
        self.sequences: dict[int, int] = defaultdict(int)
        self.starting = False
        self.records: list[tuple[bytes, Record]] = []
        self.answers: dict[Record, int | Exception] = {}
        self.cancelled: set[Record] = set()


class Simulation:
    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.now = 0.0
        self.broker = Broker()
        self.requests: list[Request] = []
        self.replies: list[tuple[Request, Answer]] = []
        self.writers: list[Writer] = [Writer(1, self.rng)]
        self.calm = False

    @property
    def writer(self) -> Writer:
        return self.writers[-1]

    # What can happen.

    def run(self) -> None:
        happenings = [
            (self.enqueue, 10),
            (self.arrive, 8),
            (self.reply, 8),
            (self.wait, 6),
            (self.lose_request, 1),
            (self.lose_reply, 1),
            (self.give_up, 1),
            (self.answer_strangely, 1),
            (self.finish_start, 4),
            (self.cancel, 1),
            (self.crash, 0.15),
            (self.stop, 0.05),
        ]
        steps = self.rng.choices(
            [happening for happening, _ in happenings],
            [weight for _, weight in happenings],
            k=self.rng.choice([30, 100, 200]),
        )
        for step in steps:
            step()
            self.poll()
        self.settle_down()
        self.check()

    def settle_down(self) -> None:
        """No more faults: everything must come to an end by itself."""
        self.calm = True
        for _ in range(2000):
            if self.writer.lanes.idle and not self.requests and not self.replies:
                return
            self.finish_start()
            self.arrive()
            self.reply()
            self.poll()
            if not self.requests and not self.replies and not self.writer.starting:
                self.wait()
                self.poll()
        raise AssertionError("the writer does not come to rest")

    def enqueue(self) -> None:
        writer, rng = self.writer, self.rng
        for _ in range(rng.choice([1, 1, 5])):
            kind = rng.choices(["", "too large ", "invalid "], [40, 1, 1])[0]
            name = f"{kind}{writer.number}.{len(writer.records)}".encode()
            value = name.ljust(rng.choice([10, 10, 100, 400]), b".")
            record = Record(
                rng.randrange(PARTITIONS), b"k", value, self.now + DEADLINE_S, "key", None
            )
            writer.records.append((value, record))
            writer.lanes.enqueue(record, self.now)

    def arrive(self) -> None:
        if not self.requests:
            return
        request = self.rng.choice(self.requests)
        # A request that stays on the wire arrives once more: aiokafka has sent it again.
        if self.calm or self.rng.random() < 0.8:
            self.requests.remove(request)
        self.replies.append((request, self.broker.append(request)))

    def reply(self) -> None:
        if not self.replies:
            return
        request, answer = self.replies.pop(self.rng.randrange(len(self.replies)))
        self.tell(request.send, answer)

    def tell(self, send: Send, answer: Answer) -> None:
        lanes = self.writer.lanes  # of another life's sends they know nothing
        if isinstance(answer, Failure):
            lanes.failed(send, answer, "simulated", self.now)
        else:
            lanes.acked(send, answer, self.now)

    def wait(self) -> None:
        due = self.writer.lanes.wake_at() - self.now
        step = self.rng.choice([0.01, 0.1, 1.0, 5.0])
        if self.calm and due < float("inf"):
            step = due
        self.now += min(step, due)  # the shell's alarm never lets a due moment pass

    def lose_request(self) -> None:
        if self.requests:
            self.requests.pop(self.rng.randrange(len(self.requests)))

    def lose_reply(self) -> None:
        if self.replies:
            request, _ = self.replies.pop(self.rng.randrange(len(self.replies)))
            if self.rng.random() < 0.7:
                self.requests.append(request)

    def give_up(self) -> None:
        """The producer gives a batch up that may still be on the wire, or in the log."""
        if self.requests:
            self.tell(self.rng.choice(self.requests).send, Failure.DOUBT)

    def answer_strangely(self) -> None:
        if self.replies:
            request, _ = self.replies.pop(self.rng.randrange(len(self.replies)))
            answers: list[Answer] = [-1, -1, Failure.DOUBT, Failure.DENIED]
            self.tell(request.send, self.rng.choice(answers))

    def finish_start(self) -> None:
        writer = self.writer
        if not writer.starting:
            return
        writer.starting = False
        if self.calm or self.rng.random() < 0.7:
            writer.pid += 1
            writer.sequences.clear()
            writer.lanes.replaced()
        else:
            failure = self.rng.choices([Failure.DOUBT, Failure.DENIED], [9, 1])[0]
            writer.lanes.not_replaced(failure, "simulated", self.now)

    def cancel(self) -> None:
        waiting = [r for _, r in self.writer.records if r not in self.writer.answers]
        if waiting:
            record = self.rng.choice(waiting)
            self.writer.cancelled.add(record)
            self.writer.lanes.cancel(record)

    def crash(self) -> None:
        self.writers.append(Writer(len(self.writers) + 1, self.rng))

    def stop(self) -> None:
        lanes = self.writer.lanes
        lanes.close()
        if self.rng.random() < 0.5:
            self.poll()
        lanes.abandon()
        self.poll()
        assert lanes.wake_at() == float("inf"), "a stopped writer wants to be woken"
        assert not self.unanswered(), "a stopped writer left a caller without an answer"
        assert (lanes.queued_bytes, lanes.queued_records) == (0, 0)
        self.crash()

    # What the shell does.

    def poll(self) -> None:
        writer = self.writer
        for effect in writer.lanes.poll(self.now):
            if isinstance(effect, Send):
                self.hand_over(effect)
            elif isinstance(effect, Acked):
                self.acked(effect)
            elif isinstance(effect, Settle):
                assert effect.record not in writer.answers, "a caller was answered twice"
                assert effect.record not in writer.cancelled, "a cancelled caller was answered"
                writer.answers[effect.record] = effect.error
            else:
                assert isinstance(effect, Replace)
                assert not writer.starting, "two producers are started at once"
                writer.starting = True
        overdue = [record for record in self.unanswered() if record.deadline <= self.now]
        assert not overdue, f"{len(overdue)} callers have no answer by their deadline"
        assert writer.lanes.wake_at() > self.now, "the writer would be woken again and again"
        assert writer.lanes.queued_bytes >= 0

    def hand_over(self, send: Send) -> None:
        writer = self.writer
        assert not writer.starting, "a batch was sent while there is no producer"
        sequence = writer.sequences[send.partition]
        writer.sequences[send.partition] += len(send.batch.records)
        assert all(record.place is Place.HANDED_OVER for record in send.batch.records)
        values = [record.value for record in send.batch.records]
        self.requests.append(Request(writer.pid, send.partition, sequence, values, send))

    def acked(self, acked: Acked) -> None:
        assert acked.offset >= 0
        log = self.broker.logs[acked.partition]
        names = {record: value for value, record in self.writer.records}
        for offset, record in enumerate(acked.batch.records, acked.offset):
            assert log[offset] == names[record], "the position holds another record"
            if not record.settled:
                record.settled = True
                assert record not in self.writer.answers, "a caller was answered twice"
                self.writer.answers[record] = offset

    def unanswered(self) -> list[Record]:
        writer = self.writer
        return [
            record
            for _, record in writer.records
            if record not in writer.answers and record not in writer.cancelled
        ]

    # What must be true in the end.

    def check(self) -> None:
        assert not self.unanswered(), "a caller has no answer at all"
        lanes = self.writer.lanes
        assert (lanes.queued_bytes, lanes.queued_records) == (0, 0)
        for partition, log in enumerate(self.broker.logs):
            first: dict[bytes, int] = {}
            for offset, value in enumerate(log):
                first.setdefault(value, offset)
            for writer in self.writers:
                self.check_writer(writer, partition, first)

    def check_writer(self, writer: Writer, partition: int, first: dict[bytes, int]) -> None:
        furthest = -1
        for value, record in writer.records:
            if record.partition != partition:
                continue
            answer = writer.answers.get(record)
            if isinstance(answer, (NotAppendedError, InvalidActumError)):
                assert value not in first, f"{value!r} was reported as not recorded"
            elif isinstance(answer, int):
                assert first[value] <= answer
            elif answer is not None:
                assert isinstance(answer, (AppendUnknownError, LogRefusedError))
                assert "went back" not in str(answer), "this broker never loses a record"
            # What a person forbade is not sent again; an attempt of before may still arrive.
            if value in first and not isinstance(answer, LogRefusedError):
                assert first[value] > furthest, f"{value!r} was overtaken"
                furthest = first[value]


def seeds() -> range:
    if "CHRONICA_SEED" in os.environ:
        seed = int(os.environ["CHRONICA_SEED"])
        return range(seed, seed + 1)
    return range(SEEDS if os.environ.get("CHRONICA_SOAK") else SEEDS // 10)


@pytest.mark.soak
def test_whatever_the_network_does_no_record_is_lost_reordered_or_misreported() -> None:
    outcomes: dict[str, int] = defaultdict(int)
    for seed in seeds():
        simulation = Simulation(seed)
        try:
            simulation.run()
        except AssertionError as error:
            raise AssertionError(f"CHRONICA_SEED={seed}: {error}") from error
        for writer in simulation.writers:
            for answer in writer.answers.values():
                outcomes[type(answer).__name__] += 1
    if len(seeds()) > 1:
        # The faults are strong enough to bring about every kind of answer.
        assert set(outcomes) == {
            *("int", "NotAppendedError", "AppendUnknownError", "InvalidActumError"),
            "LogRefusedError",
        }
