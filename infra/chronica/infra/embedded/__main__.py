"""Prepare the embedded stack ahead of its first start: ``python -m chronica.infra.embedded``.

Without an argument it fetches and verifies Kafka's jars; with ``lock`` it pins them anew.
"""

from __future__ import annotations

import sys

from rich.console import Console
from rich.markup import escape

from ._errors import StartError
from ._jars import ensure_jars


def main(arguments: list[str]) -> int:
    """Run one of the two and return the exit code."""
    console = Console(stderr=True)
    if arguments == ["lock"]:
        from ._lock import lock_jars  # noqa: PLC0415  (imports the resolver)

        console.print(f"{lock_jars()} jars pinned.")
        return 0
    if arguments:
        console.print("Usage: python -m chronica.infra.embedded [lock]")
        return 2
    try:
        jars = ensure_jars(console=console)
    except StartError as error:
        console.print(f"[red]Error:[/] {escape(str(error))}", soft_wrap=True)
        return 1
    console.print(f"Kafka: {len(jars)} jars verified.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
