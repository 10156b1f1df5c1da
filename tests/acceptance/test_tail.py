"""``chronica tail``: live in the terminal, through restarts of the server."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from tests.harness.api_processes import api_process
from tests.harness.http import acta_path
from tests.harness.running import recorded, until

from chronica.acta import random_id
from chronica.infra.settings import Settings

CHRONICA = Path(sys.executable).with_name("chronica")
OWNER = {"Chronica-Owner": "ardian"}


def append(url: str, chronicum: str, content: str) -> None:
    body = {"kind": "message", "actor_kind": "agent", "actor": "a", "content": content}
    answer = httpx.post(f"{url}{acta_path(chronicum)}", json=body, headers=OWNER, timeout=30)
    assert answer.status_code == 201, answer.text


@contextmanager
def tailing(out: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    with out.open("wb") as output:
        tail = subprocess.Popen(
            [CHRONICA, "tail", *options],
            env={k: v for k, v in os.environ.items() if not k.startswith("CHRONICA_")},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        yield tail
    finally:
        tail.kill()
        tail.wait()


def test_a_tail_shows_each_actum_once_through_a_restart(settings: Settings, tmp_path: Path) -> None:
    chronicum = random_id()
    out, as_json = tmp_path / "out", tmp_path / "json"
    with recorded(settings), api_process(settings, 1, tmp_path / "api.log") as api:
        api.until_ready()
        append(api.url, chronicum, "one\x1b[31m\nline")
        options = (chronicum, "--owner", "ardian", "--url", api.url)
        with tailing(out, *options) as tail, tailing(as_json, *options, "--json") as machine:
            until(lambda: "one" in out.read_text(), "the first is shown")
            append(api.url, chronicum, "two")
            until(lambda: "two" in out.read_text(), "the second is shown")
            port = api.url.rsplit(":", 1)[1]
            assert api.stop() == 0
            until(lambda: "trying again after seq 2" in out.read_text(), "it says so")
            with api_process(settings, 1, tmp_path / "again.log", port=int(port)) as second:
                second.until_ready()
                append(second.url, chronicum, "three")
                until(lambda: "three" in out.read_text(), "it goes on by itself")
                until(lambda: "three" in as_json.read_text(), "for machines too")
                for each in (tail, machine):
                    each.send_signal(signal.SIGINT)
                    assert each.wait(10) == 0
    shown = [line for line in out.read_text().splitlines() if "message:" in line]
    assert [re.sub(r"^ +(\d+).*message: ", r"\1 ", line) for line in shown] == [
        r"1 one\x1b[31m line",
        "2 two",
        "3 three",
    ]
    acta = [json.loads(line) for line in as_json.read_text().splitlines() if line[0] == "{"]
    assert [actum["content"] for actum in acta] == ["one\x1b[31m\nline", "two", "three"]


def test_what_waiting_does_not_mend_is_one_sentence(settings: Settings, tmp_path: Path) -> None:
    closed = Settings(**{**settings.model_dump(exclude_unset=True), "api_keys": "k1:local:read"})
    with recorded(settings), api_process(closed, 1, tmp_path / "api.log") as api:
        api.until_ready()
        options = ("tail", "none", "--owner", "ardian", "--url", api.url)
        for key, expected in (("k1", "404"), ("wrong", "401: invalid api key")):
            done = subprocess.run(
                [CHRONICA, *options, "--api-key", key], capture_output=True, text=True, timeout=60
            )
            assert done.returncode == 1
            assert expected in done.stderr
            assert len(done.stderr.strip().splitlines()) == 1
    done = subprocess.run(
        [CHRONICA, "tail", "none", "--owner", "o", "--data-dir", tmp_path / "nothing"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "--url" in done.stderr
