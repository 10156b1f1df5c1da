"""Which number a message has in its conversation: its index, else the number of its line.

The number is part of the key that keeps a second import from recording twice, so it must be the
same at each import, also of a file that was mended in between. Where that can't be, a line is
refused: recorded under another's key, it would be taken for that one and lost.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BadIndexError", "Numbering"]


class BadIndexError(ValueError):
    """A message has no number that will be the same at the next import; ``str()`` says why."""


@dataclass
class _Conversation:
    lines: int = 0
    has_own: bool = False
    """Whether some index is not the number of its line."""
    has_counted: bool = False
    """Whether some line was numbered by counting."""


class Numbering:
    """Numbers the messages of one file, in their order."""

    def __init__(self) -> None:
        self._conversations: dict[str, _Conversation] = {}
        self._lost = False

    def lose(self) -> None:
        """Note a line of which nobody knows what conversation it is of: it may be of any."""
        self._lost = True

    def number(self, conversation: str, index: object) -> int:
        """Return the number of the conversation's next line.

        Args:
            conversation: the line's.
            index: as the line has it; None counts the lines of the conversation, from 0 on.

        Raises:
            BadIndexError: it is no index, or the lines can't be counted.
        """
        seen = self._conversations.setdefault(conversation, _Conversation())
        counted, seen.lines = seen.lines, seen.lines + 1
        if index is None:
            if self._lost:
                raise BadIndexError(
                    "it has no index, and can't be counted after a line that was not understood: "
                    "mend that one and import again"
                )
            if seen.has_own:
                raise BadIndexError("it has no index, while others of its conversation have one")
            seen.has_counted = True
            return counted
        if not isinstance(index, int) or isinstance(index, bool) or index < 0:
            raise BadIndexError("index must be an integer from 0 on")
        if index != counted:
            if seen.has_counted:
                raise BadIndexError(
                    f"index is {index}, but lines before it have none and count up to {counted}"
                )
            seen.has_own = True
        return index
