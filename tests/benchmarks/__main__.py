"""``python -m tests.benchmarks``: measure, print a table, write ``build/bench.json``.

Exit code 0 also where a row doesn't hold, which the table says; 1 when a benchmark broke.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from tests.benchmarks import appends, exactly_once, latency, recorder, windows, writer
from tests.benchmarks.report import print_table, write_json
from tests.benchmarks.rows import Row, Spec
from tests.benchmarks.stage import ROOT, NotToBeHadError, Stage, open_stage

from chronica.infra.embedded import StartError

_OUTPUT = ROOT / "build" / "bench.json"
_QUICK_OUTPUT = ROOT / "build" / "bench-quick.json"
_SEED = 20_251
_WIDTH = 100


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Some rows, what measures them together, and on how much."""

    sizes: str
    specs: tuple[Spec, ...]
    measure: Callable[[Stage], Iterator[Row]]


_BENCHMARKS = {
    "recorder": Benchmark(recorder.SIZES, recorder.SPECS, recorder.measure),
    "exactly_once": Benchmark(exactly_once.SIZES, exactly_once.SPECS, exactly_once.measure),
    "writer": Benchmark(writer.SIZES, writer.SPECS, writer.measure),
    "latency": Benchmark(latency.SIZES, latency.SPECS, latency.measure),
    "appends": Benchmark(appends.SIZES, appends.SPECS, appends.measure),
    "windows": Benchmark(windows.SIZES, windows.SPECS, windows.measure),
}


def main(arguments: Sequence[str]) -> int:
    """Run what was asked for and return the exit code."""
    options = _parser().parse_args(arguments)
    progress_console = Console(stderr=True)
    started_s = time.monotonic()
    rows: list[Row] = []
    broken: list[str] = []
    with (
        _progress(progress_console, len(options.only)) as (say, advance),
        open_stage(options.seed, quick=options.quick, say=say) as stage,
    ):
        for name in options.only:
            measured, error = _run(_BENCHMARKS[name], stage)
            rows += measured
            if error is not None:
                broken.append(name)
                told = "".join(traceback.format_exception(error))
                progress_console.print(f"[red]{name} broke:[/] {escape(told)}")
            advance()
    output = _QUICK_OUTPUT if options.quick else _OUTPUT
    write_json(output, rows)
    if options.json:
        json.dump([asdict(row) for row in rows], sys.stdout, indent=2, ensure_ascii=False)
        print()
    else:
        width = None if sys.stdout.isatty() else _WIDTH
        caption = _caption(options, time.monotonic() - started_s)
        print_table(Console(width=width), rows, caption)
        print(f"Written to {output.relative_to(ROOT)}.")
    return 1 if broken else 0


def _caption(options: argparse.Namespace, took_s: float) -> str:
    sizes = [f"{name}: {_BENCHMARKS[name].sizes}" for name in options.only]
    if options.quick:
        sizes.append("and all that a tenth: not to be quoted")
    machine = (
        f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores ({platform.machine()}), "
        f"Python {platform.python_version()}, seed {options.seed}, {took_s:.0f} s"
    )
    return f"{machine}\n{'; '.join(sizes)}"


def _run(benchmark: Benchmark, stage: Stage) -> tuple[list[Row], Exception | None]:
    """Return a row for each spec, and what broke the benchmark, if something did."""
    measured: dict[tuple[str, str], Row] = {}
    broke: Exception | None = None
    reason = "the benchmark gave no figure."
    try:
        for row in benchmark.measure(stage):
            measured[row.name, row.against] = row
    except NotToBeHadError as error:
        reason = str(error)
    except Exception as error:
        reason = f"the benchmark broke ({type(error).__name__}: {str(error).partition(chr(10))[0]})"
        broke = error
    rows = [
        measured.get((spec.name, spec.against)) or spec.missing(reason) for spec in benchmark.specs
    ]
    return rows, broke


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    names = ", ".join(_BENCHMARKS)
    parser.add_argument(
        "--only", type=_names, default=list(_BENCHMARKS), help=f"some of these, by comma: {names}"
    )
    parser.add_argument("--seed", type=int, default=_SEED, help="of all data (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print the list instead of the table")
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of everything, to try the benchmarks"
    )
    return parser


def _names(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in _BENCHMARKS:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(_BENCHMARKS)}")
    return names


@contextmanager
def _progress(
    console: Console, count: int
) -> Iterator[tuple[Callable[[str], None], Callable[[], None]]]:
    """Show on a terminal how far the benchmarks are; elsewhere print what is done now."""
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=console
    )
    task = bar.add_task("starting", total=count)

    def say(text: str) -> None:
        bar.update(task, description=text)
        if not console.is_terminal:
            console.print(text)

    if console.is_terminal:
        with bar:
            yield say, lambda: bar.advance(task)
    else:
        yield say, lambda: None


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):  # of both all is stopped and deleted
        signal.signal(number, signal.default_int_handler)
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        print("Interrupted; nothing was written.", file=sys.stderr)
        sys.exit(130)
    except StartError as error:
        print(f"{error} Nothing was written.", file=sys.stderr)
        sys.exit(1)
