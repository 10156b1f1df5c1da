"""Every rule of ``decide``, and which one wins where two apply: the order is the contract."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

import pytest
from tests.harness.submissions import actum, create, read_one, record_of

from chronica.log import Submission
from chronica.projections import HeadRow, KeptRow
from chronica.recorder import (
    Created,
    Decision,
    Digests,
    Duplicate,
    Invalid,
    Recorded,
    Refused,
    decide,
)

DIGESTS = Digests(chronicum=UUID(int=1), submission=UUID(int=2), dedupe=UUID(int=3))
HEAD = HeadRow(7, DIGESTS.chronicum, "t", "dinner", "ann", 0, 0, last_seq=4)
VERDICT = Invalid("internal_error", "SQLSTATE 22000: no")
UNDECODABLE = Invalid("not_json", "The value is not a JSON object.")


@dataclass
class Past:
    """A past as ``decide`` reads it; what it holds is about DIGESTS and nothing else."""

    exists: HeadRow | None = None
    first_seq: int | None = None
    answer: KeptRow | None = None
    asked: list[str] = field(default_factory=list)

    def head(self, chronicum: UUID) -> HeadRow | None:
        self.asked.append("head")
        return self.exists if chronicum == DIGESTS.chronicum else None

    def first(self, dedupe: UUID) -> int | None:
        self.asked.append("first")
        return self.first_seq if dedupe == DIGESTS.dedupe else None

    def kept(self, submission: UUID) -> KeptRow | None:
        self.asked.append("kept")
        return self.answer if submission == DIGESTS.submission else None


NOTHING = Past()
EXISTS = Past(exists=HEAD)
KEY_KNOWN = Past(exists=HEAD, first_seq=2)

CONFLICT_KEPT = KeptRow("refused", "sequence_conflict", 4, None)
MISSING_KEPT = KeptRow("refused", "missing", None, None)
CREATED_KEPT = KeptRow("recorded", None, None, 7)

RULES: dict[str, tuple[Past, Submission, Decision]] = {
    "the first actum creates its chronicum": (NOTHING, actum(), Recorded(1)),
    "the next actum has the next seq": (EXISTS, actum(), Recorded(5)),
    "its own key is no obstacle": (EXISTS, actum(key="k"), Recorded(5)),
    "a plain actum needs no owner": (EXISTS, actum(owner=None), Recorded(5)),
    "a created chronicum without acta begins with 1": (
        Past(exists=HEAD._replace(last_seq=0)),
        actum(),
        Recorded(1),
    ),
    "a create makes a chronicum": (NOTHING, create(), Created()),
    "a create of what exists is refused": (EXISTS, create(), Refused("exists")),
    "a stranger's create is told the same": (EXISTS, create(owner="bob"), Refused("exists")),
    "a stranger sees nothing": (EXISTS, actum(owner="bob"), Refused("not_found")),
    "a stranger with a known key sees nothing": (
        KEY_KNOWN,
        actum(owner="bob", key="k"),
        Refused("not_found"),
    ),
    "a known key is answered with the first": (KEY_KNOWN, actum(key="k"), Duplicate(2)),
    "without owner too": (KEY_KNOWN, actum(owner=None, key="k"), Duplicate(2)),
    "a plain actum without a chronicum is refused, and kept": (
        NOTHING,
        actum(owner=None),
        Refused("missing", kept=True),
    ),
    "the expected seq is the last one": (EXISTS, actum(expected_seq=4), Recorded(5)),
    "nothing yet is expected by 0": (NOTHING, actum(expected_seq=0), Recorded(1)),
    "a lower expected seq is a conflict, and kept": (
        EXISTS,
        actum(expected_seq=3),
        Refused("sequence_conflict", 4, kept=True),
    ),
    "a higher one too": (
        EXISTS,
        actum(expected_seq=5),
        Refused("sequence_conflict", 4, kept=True),
    ),
    "0 is not no expectation": (
        EXISTS,
        actum(expected_seq=0),
        Refused("sequence_conflict", 4, kept=True),
    ),
    "a conflict in what does not exist creates nothing": (
        NOTHING,
        actum(expected_seq=1),
        Refused("sequence_conflict", 0, kept=True),
    ),
    "a kept conflict is answered as at first": (
        Past(exists=HEAD._replace(last_seq=9), answer=CONFLICT_KEPT),
        actum(expected_seq=9),
        Refused("sequence_conflict", 4),
    ),
    "a kept missing is answered as at first": (
        Past(exists=HEAD, answer=MISSING_KEPT),
        actum(owner=None),
        Refused("missing"),
    ),
    "a create that comes again is created again": (
        Past(exists=HEAD, answer=CREATED_KEPT),
        create(),
        Created(again=True),
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_the_rule_is(rule: str) -> None:
    past, submission, decision = RULES[rule]
    assert decide(past, submission, DIGESTS, None) == decision


# From the first check to the last: each is broken by what it names, and so are all after it.
ORDER: list[tuple[str, Past, Submission | Invalid, Invalid | None, Decision]] = [
    ("the verdict", NOTHING, UNDECODABLE, VERDICT, VERDICT),
    (
        "the kept answer before the owner guard, the key and the expected seq",
        Past(exists=HEAD, first_seq=2, answer=CONFLICT_KEPT),
        actum(owner="bob", key="k", expected_seq=1),
        None,
        Refused("sequence_conflict", 4),
    ),
    (
        "the kept answer before the create's own rule",
        Past(exists=HEAD, answer=CREATED_KEPT),
        create(),
        None,
        Created(again=True),
    ),
    (
        "the owner guard before the key and the expected seq",
        KEY_KNOWN,
        actum(owner="bob", key="k", expected_seq=1),
        None,
        Refused("not_found"),
    ),
    (
        "the key before the expected seq: one's own retry is no conflict",
        KEY_KNOWN,
        actum(key="k", expected_seq=1),
        None,
        Duplicate(2),
    ),
    (
        "the missing chronicum before the expected seq",
        NOTHING,
        actum(owner=None, expected_seq=1),
        None,
        Refused("missing", kept=True),
    ),
]


@pytest.mark.parametrize(
    ("past", "submission", "verdict", "decision"),
    [case[1:] for case in ORDER],
    ids=[case[0] for case in ORDER],
)
def test_the_order_of_the_checks_is(
    past: Past, submission: Submission | Invalid, verdict: Invalid | None, decision: Decision
) -> None:
    digests = None if isinstance(submission, Invalid) else DIGESTS
    assert decide(past, submission, digests, verdict) == decision


@pytest.mark.parametrize("rule", RULES)
def test_a_verdict_is_the_answer_whatever_the_rules_say(rule: str) -> None:
    past, submission, _decision = RULES[rule]
    assert decide(past, submission, DIGESTS, VERDICT) is VERDICT


def test_what_can_not_be_decoded_is_invalid_and_asks_nothing() -> None:
    past = Past(exists=HEAD)
    assert decide(past, UNDECODABLE, None, None) is UNDECODABLE
    assert past.asked == []


def test_a_refusal_is_kept_only_if_it_could_turn() -> None:
    kept = {d.reason for _p, _s, d in RULES.values() if isinstance(d, Refused) and d.kept}
    never = {d.reason for p, _s, d in RULES.values() if isinstance(d, Refused) and not p.answer}
    assert kept == {"missing", "sequence_conflict"}
    assert never - kept == {"exists", "not_found"}


# The digests are part of the rules: they say what counts as the same submission.


def digests_of(submission: Submission) -> Digests:
    digests = read_one(record_of(submission)).digests
    assert digests is not None
    return digests


def test_a_submission_without_key_has_its_id_for_one() -> None:
    assert digests_of(actum(id="x")).dedupe == digests_of(actum(id="y", key="x")).dedupe
    assert digests_of(actum(id="x")).dedupe != digests_of(actum(id="x", key="k")).dedupe


@pytest.mark.parametrize("change", [{"tenant": "u"}, {"chronicum": "lunch"}, {"owner": "bob"}])
def test_an_answer_is_kept_for_one_chronicum_and_owner(change: dict[str, str]) -> None:
    assert digests_of(actum()).submission != digests_of(actum(**change)).submission
    assert digests_of(actum()).submission == digests_of(actum(key="k", content="else")).submission


@pytest.mark.parametrize("change", [{"tenant": "u"}, {"chronicum": "lunch"}])
def test_a_key_is_known_in_one_chronicum(change: dict[str, str]) -> None:
    assert digests_of(actum(key="k")).dedupe != digests_of(actum(key="k", **change)).dedupe
    assert digests_of(actum()).chronicum != digests_of(actum(**change)).chronicum


def test_no_owner_is_not_an_owner_named_null() -> None:
    assert digests_of(actum(owner=None)).submission != digests_of(actum(owner="null")).submission
