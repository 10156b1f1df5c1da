"""The steps of a start, shown while they are taken."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

__all__ = ["Steps"]


class Steps:
    """Spinners with their times on a terminal; elsewhere a line for each step that is done.

    Args:
        console: where they are shown.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            SpinnerColumn(finished_text="[green]✓[/]"),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}

    def begin(self, name: str) -> None:
        """Show a step that is under way."""
        self._tasks[name] = self._progress.add_task(name, total=1)

    def done(self, name: str) -> None:
        """Show that it is done."""
        self._progress.update(self._tasks[name], completed=1)
        if not self._console.is_terminal:
            self._console.print(f"{name}: ready")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._progress.stop()
