"""The acta that every benchmark uses: made from a seed, of the sizes that conversations have.

Lengths of contents follow those of the airline conversations of tau-bench (mean 260 characters, one
in ten longer than 700): an exponential distribution. A third carries metadata, the tool kinds a
call id, and each an idempotency key.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import TypeAlias

from chronica.acta import ActorKind, Actum, ActumKind

__all__ = ["OWNER", "Acta", "flat_json", "make_acta"]

Acta: TypeAlias = Sequence[tuple[Actum, str]]
"""Acta, each with its idempotency key."""

OWNER = "ardian"
_MEAN_CHARS = 260
_CONTENTS = 2_000
_VOCABULARY = (
    "flight seat table dinner friday four guests booking refund economy passenger price upgrade "
    "please confirm thank you reservation café naïve 予約 the of and to for with would like"
)
_KINDS = (
    (ActumKind.MESSAGE, ActorKind.HUMAN, "guest"),
    (ActumKind.THOUGHT, ActorKind.AGENT, "concierge"),
    (ActumKind.TOOL_REQUEST, ActorKind.AGENT, "concierge"),
    (ActumKind.TOOL_RESPONSE, ActorKind.SYSTEM, "booking"),
    (ActumKind.MESSAGE, ActorKind.AGENT, "concierge"),
)


def make_acta(seed: int, count: int, chronica: int) -> list[tuple[Actum, str]]:
    """Return acta with their idempotency keys, spread over so many chronica.

    Args:
        seed: the same one gives the same acta.
        count: how many.
        chronica: among how many sessions they are dealt out at random.
    """
    chance = random.Random(seed)
    contents = [_content(chance) for _ in range(_CONTENTS)]
    made = []
    for number in range(count):
        kind, actor_kind, actor = chance.choice(_KINDS)
        actum = Actum(
            chronicum_id=f"session-{chance.randrange(chronica)}",
            kind=kind,
            actor_kind=actor_kind,
            actor=actor,
            content=chance.choice(contents),
            call_id=f"call-{number}" if kind.startswith("tool_") else None,
            metadata={"model": "m-1", "tokens": number % 4096} if number % 3 == 0 else None,
        )
        made.append((actum, f"turn-{number}"))
    return made


def _content(chance: random.Random) -> str:
    length = min(int(chance.expovariate(1 / _MEAN_CHARS)) + 20, 8_000)
    vocabulary = _VOCABULARY.split()
    words: list[str] = []
    chars = 0
    while chars < length:
        words.append(chance.choice(vocabulary))
        chars += len(words[-1]) + 1
    return " ".join(words)


def flat_json(actum: Actum, key: str) -> bytes:
    """Return an actum as one flat JSON object, as users of other systems would write it.

    Every field is there and a string: neither peer takes a record that lacks one it has a column
    for.
    """
    return json.dumps(
        {
            "chronicum": actum.chronicum_id,
            "owner": OWNER,
            "key": key,
            "kind": str(actum.kind),
            "actor_kind": str(actum.actor_kind),
            "actor": actum.actor,
            "content": actum.content,
            "call_id": actum.call_id or "",
            "metadata": json.dumps(actum.metadata) if actum.metadata else "",
        }
    ).encode()
