"""Surrogate pairs: two code points in Python, one character everywhere else."""

from __future__ import annotations

import re

__all__ = ["joined"]

_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def joined(text: str) -> str:
    """Return a text with each surrogate pair joined to the character it stands for.

    A stream that was cut inside a character and put together again leaves such pairs. JSON can't
    say them apart from the character, so no store could give them back as two. Lone surrogates
    stay as they are.
    """
    if _PAIR.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
