"""The table for people and the list for machines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from tests.benchmarks.rows import Row

__all__ = ["print_table", "write_json"]


def print_table(console: Console, rows: Sequence[Row], caption: str) -> None:
    """Print the rows, each with its peer or limit and what must be known of it."""
    table = Table(title="Chronica: benchmarks", title_justify="left", caption=caption)
    table.caption_justify = "left"
    table.show_lines = True
    table.add_column("what\n[dim]against what[/]", overflow="fold")
    for heading in ("value", "against", "ratio", "reach"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("holds")
    for row in rows:
        note = f"\n[dim italic]{escape(row.note)}[/]" if row.note else ""
        table.add_row(
            f"{escape(row.name)}\n[dim]{escape(row.against)}[/]{note}",
            _number(row.value, row.unit),
            _number(row.against_value, row.unit),
            "" if row.ratio is None else f"{row.ratio:.2f}",
            row.reach,
            "[green]yes[/]" if row.holds else "[red]no[/]",
        )
    console.print(table)


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:,.2f} {unit}"


def write_json(path: Path, rows: Sequence[Row]) -> None:
    """Write the rows as a list of objects, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half_written = path.with_name(f".{path.name}")
    half_written.write_text(
        json.dumps([asdict(row) for row in rows], indent=2, ensure_ascii=False) + "\n",
        encoding="utf-8",
    )
    half_written.replace(path)
