"""``chronica tail``: follow a chronicum live, over the API's stream."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Annotated, Any
from urllib.parse import quote

import httpx
import typer
from httpx_sse import ServerSentEvent, SSEError, connect_sse
from rich.text import Text

from chronica.acta import load_json
from chronica.infra.settings import Settings

from ._logs import set_up_logging
from ._running import running_stack
from ._settings import DataDirOption, load_settings
from ._terminal import CommandError, note, output, printable, write_out

__all__ = ["tail"]

_CONTENT_CHARS_MAX = 280
_SILENT_S = 40.0  # the server comments every 15 s
_BACKOFF_FIRST_S = 0.5
_BACKOFF_MAX_S = 10.0
_STYLES = {"human": "cyan", "agent": "green", "system": "magenta"}


def tail(
    chronicum: Annotated[str, typer.Argument(help="Id of the chronicum.")],
    owner: Annotated[str, typer.Option(help="Who owns it; nobody else sees it.")],
    after_seq: Annotated[
        int | None,
        typer.Option(
            min=0, help="Begin after this seq (default: with the first).", show_default=False
        ),
    ] = None,
    *,
    as_json: Annotated[
        bool, typer.Option("--json", help="One actum a line, as over HTTP.")
    ] = False,
    url: Annotated[
        str | None,
        typer.Option(help="Of the API (default: that of the stack that runs).", show_default=False),
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(envvar="CHRONICA_API_KEY", help="Key of the API.", show_default=False),
    ] = None,
    data_dir: DataDirOption = None,
) -> None:
    """Follow a chronicum: what was recorded, then each actum as it is, until Ctrl-C.

    When the server goes away it waits for it and goes on where it was: nothing is left out, and
    nothing is shown twice.

    Examples:
      chronica tail dinner-friday --owner ardian
      chronica tail dinner-friday --owner ardian --after-seq 120 --json
      chronica tail dinner-friday --owner ardian --url https://chronica.example
    """
    set_up_logging()
    base = url or _api_url(load_settings(data_dir=data_dir))
    headers = [(b"Chronica-Owner", owner.encode())]
    if api_key is not None:
        headers.append((b"Authorization", f"Bearer {api_key}".encode()))
    path = f"{base.rstrip('/')}/v1/chronica/{quote(chronicum, safe='')}/stream"
    show = _show_json if as_json else _show
    try:
        with httpx.Client(headers=headers, timeout=httpx.Timeout(10.0, read=_SILENT_S)) as http:
            for event in _follow(http, path, after_seq or 0):
                show(event)
    except KeyboardInterrupt:
        return


def _api_url(settings: Settings) -> str:
    running = running_stack(settings)
    if running is None or running.api is None:
        raise CommandError(
            f"No Chronica that serves an API runs in {settings.data_dir}: start one with "
            "`chronica up`, or name it with --url."
        )
    return running.api


def _follow(http: httpx.Client, path: str, after: int) -> Iterator[ServerSentEvent]:
    """Yield every event once, in order, for ever: each connection begins after the last one."""
    failures = 0
    while True:
        try:
            with connect_sse(http, "GET", path, headers={"Last-Event-ID": str(after)}) as source:
                _check(source.response)
                for event in source.iter_sse():
                    if event.event == "actum":
                        failures = 0
                        after = int(event.id)
                        yield event
            reason = "the server ended the stream"
        except (httpx.TransportError, SSEError) as error:
            reason = str(error) or type(error).__name__
        failures += 1
        wait_s = min(_BACKOFF_MAX_S, _BACKOFF_FIRST_S * 2.0 ** min(failures - 1, 10))
        wait_s *= 0.5 + random.random() / 2  # noqa: S311  (spreads those that reconnect)
        note(f"Not connected ({reason}): trying again after seq {after}.")
        time.sleep(wait_s)


def _check(response: httpx.Response) -> None:
    """Tell what waiting mends from what it doesn't."""
    if response.status_code == 200:
        return
    response.read()
    if response.status_code in (502, 503, 504):
        raise httpx.ReadError(f"the server answers {response.status_code}")
    try:
        detail = load_json(response.text)["detail"]
    except (ValueError, KeyError, TypeError):
        detail = response.text[:200]
    raise CommandError(f"The server answers {response.status_code}: {detail}")


def _show_json(event: ServerSentEvent) -> None:
    write_out(event.data)


def _show(event: ServerSentEvent) -> None:
    actum: dict[str, Any] = load_json(event.data)
    line = Text(f"{actum['seq']:>5}  {actum['at'][11:19]}  ", style="dim")
    line.append(printable(actum["actor"]), style=_STYLES.get(actum["actor_kind"], ""))
    line.append(f" {actum['kind']}: ", style="dim")
    content = printable(actum["content"])
    shown = content if len(content) <= _CONTENT_CHARS_MAX else content[:_CONTENT_CHARS_MAX] + " …"
    line.append(" ".join(shown.split()))
    output().print(line, soft_wrap=True)
