"""``chronica status``: where a stack is, and whether it is ready."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

import httpx
import typer
from rich.table import Table

from chronica.acta import dump_json
from chronica.infra.settings import Settings

from ._logs import set_up_logging
from ._running import no_stack, running_in, running_stack
from ._settings import DataDirOption, hidden_password, load_settings
from ._terminal import note, output, printable, write_out

__all__ = ["status"]

_ANSWER_WITHIN_S = 10.0


@dataclass(kw_only=True)
class _Status:
    """What is known of a stack; the five facts that ``--json`` shows, and why it isn't ready."""

    api: str | None = None
    kafka: str | None = None
    postgres: str | None = None
    ready: bool = False
    lag: dict[str, Any] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)


def status(
    *,
    as_json: Annotated[
        bool, typer.Option("--json", help="For machines; holds the Postgres password.")
    ] = False,
    data_dir: DataDirOption = None,
) -> None:
    """Show where the parts of the stack are, and whether it is ready.

    The exit code is 0 only when it is: appends are taken, decided and read.

    Examples:
      chronica status
      chronica status --json | python -m json.tool
    """
    set_up_logging()
    found = _look(load_settings(data_dir=data_dir))
    if as_json:
        facts = ("api", "kafka", "postgres", "ready", "lag")
        write_out(dump_json({name: getattr(found, name) for name in facts}))
    else:
        output().print(_table(found))
    for reason in found.reasons:
        note(reason)
    if not found.ready:
        raise typer.Exit(1)


def _look(settings: Settings) -> _Status:
    running = running_stack(settings)
    dsn = settings.postgres_dsn
    if running is not None:
        found = _Status(api=running.api, kafka=running.kafka, postgres=running.postgres)
    else:
        found = _Status(
            kafka=settings.kafka_bootstrap_servers,
            postgres=dsn.get_secret_value() if dsn else None,
        )
        if not (found.kafka and found.postgres):
            found.reasons = [no_stack(settings)]
        else:
            host = f"[{settings.host}]" if ":" in settings.host else settings.host
            found.api = f"http://{host}:{settings.port}"
            other = running_in(settings.data_dir)
            if other is not None and other.api == found.api:
                # It would answer, but of other servers.
                found.api = None
                found.reasons = [
                    (
                        f"The API at {other.api} is that of the stack in {settings.data_dir}, "
                        "which has other addresses than those that are set: unset them to see "
                        "that one, or set CHRONICA_PORT to the port of the API that has them."
                    )
                ]
    if found.api is not None:
        _ask(found, found.api)
    return found


def _ask(found: _Status, api: str) -> None:
    try:
        # Never by way of a proxy: it is on this machine or in this network.
        answer = httpx.get(f"{api}/ready", timeout=_ANSWER_WITHIN_S, trust_env=False).json()
        found.ready, found.lag = answer["ready"] is True, dict(answer["lag"])
        found.reasons = [str(reason) for reason in answer["reasons"]]
    except (httpx.HTTPError, ValueError, TypeError, KeyError):
        found.reasons = [f"The API at {api} does not answer: see whether `chronica up` still runs."]


def _table(found: _Status) -> Table:
    table = Table(show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("API", found.api or "–")
    table.add_row("Kafka", found.kafka or "–")
    table.add_row("Postgres", hidden_password(found.postgres) if found.postgres else "–")
    table.add_row("Ready", "[green]yes[/]" if found.ready else "[red]no[/]")
    for topic, partitions in found.lag.items():
        known = [lag for lag in partitions.values() if lag is not None]
        behind = f"{sum(known):,} to record in {len(partitions)} partitions"
        table.add_row(f"Lag of {printable(topic)}", behind if known else "not known")
    return table
