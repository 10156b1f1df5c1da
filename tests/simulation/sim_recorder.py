"""The recorder's whole path in one seeded world: real ``work``, on models of Kafka and Postgres.

Everything that happens is one random number's choice, so a seed is a story that can be told again.
A recorder dies between any two steps, sleeps for long and goes on as if nothing had happened, loses
its lock or its answer; Postgres crashes and takes back commits; partitions move; writers go on.

What must hold: at every moment, all below a partition's position is recorded once, and an answer
that anybody could have read never changes; in the end, the tables are those of one recorder that
nobody disturbed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

from tests.simulation.sim_checks import Watch, difference, rows_of
from tests.simulation.sim_log import Log, Writers
from tests.simulation.sim_postgres import Postgres, Session

from chronica.log import LogUnavailableError
from chronica.projections import ClaimLostError, DataRefusedError, PostgresUnavailableError
from chronica.recorder._state import PartitionState
from chronica.recorder._work import (
    Abandon,
    Claim,
    Fetch,
    Identify,
    Limits,
    LookUp,
    PinVerdict,
    Step,
    Write,
    work,
)

__all__ = ["PARTITIONS", "RecorderWorld"]

PARTITIONS = 2
EVENTS = 300

_FAILURES = (ClaimLostError, DataRefusedError, PostgresUnavailableError, LogUnavailableError)


class SimRecorder:
    """One recorder of one partition: the generator, and its session."""

    def __init__(
        self,
        partition: int,
        log: Log,
        postgres: Postgres,
        limits: Limits,
        state: PartitionState,
        chunk: Callable[[], int],
    ) -> None:
        self.partition = partition
        self.sleeps_until = 0
        self.session: Session | None = None
        self._log = log
        self._postgres = postgres
        self._chunk = chunk
        self._steps = work("acta", PARTITIONS, limits, state)
        self.step: Step | None = next(self._steps)

    def advance(self, *, away: bool = False, answer_lost: bool = False) -> None:
        """Do the step that is due.

        Args:
            away: Kafka or Postgres can't be reached for it.
            answer_lost: Postgres does it, and the connection breaks before it says so.
        """
        assert self.step is not None, "it has not ended"
        try:
            try:
                if away and not isinstance(self.step, Abandon):
                    raise self._unreachable()
                answer = self.do(self.step)
                if answer_lost and isinstance(self.step, Claim | Write | PinVerdict):
                    raise PostgresUnavailableError("the connection broke")
            except _FAILURES as error:
                self.step = self._steps.throw(error)
            else:
                self.step = self._steps.send(answer)
        except StopIteration:
            self.step = None
            self.close()

    def _unreachable(self) -> Exception:
        if isinstance(self.step, Identify | Fetch):
            return LogUnavailableError("Kafka is away")
        return PostgresUnavailableError("Postgres is away")

    def do(self, step: Step) -> Any:
        postgres = self._postgres
        match step:
            case Claim():
                self.session = postgres.connect()
                return postgres.claim(self.session, self.partition)
            case Identify(offset):
                return self._log.identity(offset)
            case Fetch(offset):
                return self._log.fetch(offset, self._chunk())
            case LookUp(claim, wanted):
                return postgres.look_up(self._held, claim, wanted)
            case Write(claim, expected, batch):
                return postgres.write(self._held, claim, expected, batch)
            case PinVerdict(offset, reason, detail):
                return postgres.pin_verdict(self._held, self.partition, offset, reason, detail)
            case Abandon():
                return self.close()

    @property
    def _held(self) -> Session:
        assert self.session is not None, "claimed before anything else"
        return self.session

    def close(self) -> None:
        session, self.session = self.session, None
        if session is not None:
            self._postgres.end(session)

    def die(self) -> None:
        """Stop between two steps; the server does not know yet that its client is gone."""
        self._steps.close()
        self.step = None


class RecorderWorld:
    """The world of one seed."""

    def __init__(
        self,
        seed: int,
        *,
        new_postgres: Callable[[], Postgres] = lambda: Postgres(PARTITIONS),
        new_state: Callable[[int], PartitionState] = PartitionState,
    ) -> None:
        self.random = Random(seed)
        self.logs = [Log() for _ in range(PARTITIONS)]
        self.postgres = new_postgres()
        self._new_state = new_state
        self._writers = Writers(self.random, self.logs)
        self._recorders: list[SimRecorder] = []
        self._orphans: list[Session] = []
        self._watch = Watch(self.logs)
        self._now = 0
        self.happened: dict[str, int] = defaultdict(int)

    def run(self) -> None:
        """Let everything happen, then let one recorder finish, and compare."""
        events: dict[Callable[[], None], int] = {
            self._step: 70,
            self._append: 10,
            self._start: 6,
            self._kill: 3,
            self._move: 2,
            self._sleep: 2,
            self._lose_lock: 2,
            self._notice_orphan: 4,
            self._flush: 1,
            self._crash_postgres: 1,
        }
        chosen = self.random.choices(list(events), list(events.values()), k=EVENTS)
        for self._now, event in enumerate(chosen):
            event()
            self._watch.look(self.postgres)
        self._finish()
        self._compare()

    # what happens

    def _awake(self) -> list[SimRecorder]:
        return [r for r in self._recorders if r.sleeps_until <= self._now]

    def _step(self) -> None:
        awake = self._awake()
        if not awake:
            return
        recorder = self.random.choice(awake)
        luck = self.random.random()
        if luck > 0.94:
            self.happened["answers lost" if luck > 0.97 else "unreachable"] += 1
        recorder.advance(away=0.94 < luck <= 0.97, answer_lost=luck > 0.97)
        if isinstance(recorder.step, Abandon):
            self.happened[type(recorder.step.error).__name__] += 1
        self._recorders = [r for r in self._recorders if r.step is not None]

    def _append(self) -> None:
        for _ in range(self.random.randint(1, 8)):
            self._writers.append()

    def _start(self, partition: int | None = None) -> None:
        random = self.random
        if partition is None:
            partition = random.randrange(PARTITIONS)
        limits = Limits(random.randint(1, 8), random.choice([400, 2000, 2**23]))
        state = self._new_state(random.choice([1, 2, 50_000]))
        chunk_max = random.randint(1, 20)
        log = self.logs[partition]
        self._recorders.append(
            SimRecorder(
                partition, log, self.postgres, limits, state, lambda: random.randint(1, chunk_max)
            )
        )

    def _kill(self) -> None:
        if not self._recorders:
            return
        recorder = self._recorders.pop(self.random.randrange(len(self._recorders)))
        step, session = recorder.step, recorder.session
        if isinstance(step, Write | PinVerdict) and self.random.random() < 0.5:
            # It was sent before the process died: the server does it all the same.
            with suppress(*_FAILURES):
                recorder.do(step)
            self.happened["written after death"] += 1
        recorder.die()
        if session is not None:
            self._orphans.append(session)

    def _move(self) -> None:
        """A recorder gives its partition up, and another comes for it."""
        if self._recorders:
            recorder = self._recorders.pop(self.random.randrange(len(self._recorders)))
            recorder.die()
            recorder.close()
            self._start(recorder.partition)

    def _sleep(self) -> None:
        if self._recorders:
            sleeper = self.random.choice(self._recorders)
            sleeper.sleeps_until = self._now + self.random.randint(10, 100)

    def _lose_lock(self) -> None:
        """Advisory locks are not in the WAL: after a failover, two may hold one partition."""
        if self.postgres.locks:
            del self.postgres.locks[self.random.choice(list(self.postgres.locks))]

    def _notice_orphan(self) -> None:
        if self._orphans:
            self.postgres.end(self._orphans.pop(0))

    def _flush(self) -> None:
        self.postgres.flush()

    def _crash_postgres(self) -> None:
        lost = self.random.randint(0, self.postgres.unsynced)
        self.happened["commits taken back"] += lost
        self.postgres.crash(lost)

    # the end

    def _finish(self) -> None:
        for session in self._orphans:
            self.postgres.end(session)
        self.postgres.locks.clear()
        for partition in range(PARTITIONS):
            self._record_undisturbed(self.postgres, partition)
        self._watch.look(self.postgres)
        # Those that still sleep wake up now, and write late.
        before = rows_of(self.postgres)
        for recorder in self._recorders:
            while recorder.session is not None and not isinstance(recorder.step, Fetch | Abandon):
                recorder.advance()
        assert rows_of(self.postgres) == before, "a zombie changed what was recorded"

    def _record_undisturbed(self, postgres: Postgres, partition: int) -> None:
        log = self.logs[partition]
        recorder = SimRecorder(
            partition, log, postgres, Limits(), PartitionState(), lambda: log.end_offset or 1
        )
        while not (isinstance(recorder.step, Fetch) and recorder.step.offset == log.end_offset):
            assert not isinstance(recorder.step, Abandon), f"undisturbed, but {recorder.step}"
            recorder.advance()
        recorder.die()
        recorder.close()

    def _compare(self) -> None:
        undisturbed = Postgres(PARTITIONS)
        for partition in range(PARTITIONS):
            self._record_undisturbed(undisturbed, partition)
        wanted, found = rows_of(undisturbed), rows_of(self.postgres)
        for name, rows in wanted.items():
            assert found[name] == rows, f"{name}: {difference(found[name], rows)}"
