"""How acta are shown: a table for people, JSON for machines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.table import Table
from rich.text import Text

from chronica.acta import ActorKind, Actum

from ._terminal import printable

__all__ = ["actum_fields", "window_table"]

_CONTENT_CHARS_MAX = 280
_STYLES = {ActorKind.HUMAN: "cyan", ActorKind.AGENT: "green", ActorKind.SYSTEM: "magenta"}


def actum_fields(actum: Actum) -> dict[str, Any]:
    """Return an actum's fields as the HTTP API names them."""
    at = actum.at
    return {
        "id": actum.id,
        "chronicum_id": actum.chronicum_id,
        "seq": actum.seq,
        "at": f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z",
        "kind": actum.kind,
        "actor_kind": actum.actor_kind,
        "actor": actum.actor,
        "content": actum.content,
        "call_id": actum.call_id,
        "metadata": actum.metadata,
    }


def window_table(title: str, acta: Iterable[Actum]) -> Table:
    """Return a table of acta, oldest first; long content is shortened, and says so."""
    table = Table(title=Text(printable(title)), title_justify="left")
    table.add_column("seq", justify="right")
    table.add_column("actor", overflow="fold", max_width=20)
    table.add_column("kind", no_wrap=True)
    table.add_column("content", overflow="fold", ratio=1)
    for actum in acta:
        table.add_row(
            str(actum.seq),
            Text(_short(actum.actor, 60), style=_STYLES.get(actum.actor_kind, "")),
            Text(actum.kind),
            _content(actum),
        )
    return table


def _content(actum: Actum) -> Text:
    shown = Text()
    if actum.call_id is not None:
        shown.append(f"[{_short(actum.call_id, 40)}] ", style="dim")
    return shown.append(_short(actum.content, _CONTENT_CHARS_MAX))


def _short(text: str, chars_max: int) -> str:
    """Return one line that is safe to print, of at most so many characters of the text."""
    # Only what is shown is looked at: a content may have millions of characters.
    line = printable(" ".join(text[:chars_max].split()))
    rest = len(text) - chars_max
    return f"{line} … (+{rest:,})" if rest > 0 else line
