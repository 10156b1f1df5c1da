"""What a partition's recorder remembers, for how long, and what it must look up."""

from __future__ import annotations

import pytest
from tests.harness.submissions import actum, read_one, record_of

from chronica.projections import ClaimLostError, Found
from chronica.recorder._fold import fold, wanted
from chronica.recorder._state import PartitionState


def test_heads_that_must_go_are_those_not_used_for_longest() -> None:
    state = PartitionState(heads_max=2)
    a, b, c = (read_one(record_of(actum(chronicum=name))) for name in "abc")
    for reads in ([a], [b], [a], [c]):
        asked = wanted(state, reads)
        state.begin(asked.heads, Found({}, {}, {}, {}))
        state.end()
    asked = wanted(state, [a, b, c])
    assert b.digests is not None
    assert asked.heads == (b.digests.chronicum,)


def test_a_head_in_use_stays_until_its_batch_is_written() -> None:
    state = PartitionState(heads_max=1)
    reads = [read_one(record_of(actum(chronicum=name), n)) for n, name in enumerate("abc")]
    asked = wanted(state, reads)
    state.begin(asked.heads, Found({}, {}, {}, {}))
    assert len(fold(state, reads, partition=0, next_offset=3).acta) == 3
    state.end()
    assert len(state.unknown(asked.heads)) == 2


def test_what_is_forgotten_must_be_looked_up_again() -> None:
    state = PartitionState()
    reads = [read_one(record_of(actum()))]
    asked = wanted(state, reads)
    assert reads[0].digests is not None
    assert asked.heads == (reads[0].digests.chronicum,)
    state.begin(asked.heads, Found({}, {}, {}, {}))
    assert wanted(state, reads).heads == ()
    state.forget()
    assert wanted(state, reads) == asked


def test_what_is_newer_than_a_claims_heads_shows_that_the_claim_is_lost() -> None:
    """A recorder that slept: it knows that there is no chronicum, and sees its acta."""
    state = PartitionState()
    reads = [read_one(record_of(actum(id="s2", owner=None)))]
    digests = reads[0].digests
    assert digests is not None
    state.begin([digests.chronicum], Found({}, {}, {}, {}))
    assert wanted(state, reads).heads == ()
    state.begin([], Found({}, {digests.dedupe: 1}, {}, {}))
    with pytest.raises(ClaimLostError):
        fold(state, reads, partition=0, next_offset=1)
