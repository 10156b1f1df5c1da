"""The command line as a user has it: real processes, one `chronica up` for the whole module."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from chronica.infra.embedded import DataDir
from chronica.infra.embedded._files import DirectoryLock

CHRONICA = Path(sys.executable).with_name("chronica")
AIRLINE = Path(__file__).parents[2] / "../shared/data/tau-bench/airline.jsonl.gz"
START_WITHIN_S = 120
STOP_WITHIN_S = 40


class Up:
    """A `chronica up` of this module's own, in a data directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.data_dir = directory / "data"
        self.output = directory / "output"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("CHRONICA_")}
        self.env |= {"CHRONICA_DATA_DIR": str(self.data_dir), "COLUMNS": "160"}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [CHRONICA, "up", "--port", "0"],
                env=self.env,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_WITHIN_S
        while "Serving." not in self.said():
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.1)

    def said(self) -> str:
        return self.output.read_text("utf-8")

    def stop(self, number: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        code = self.process.wait(STOP_WITHIN_S)
        self.process = None
        return code

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [CHRONICA, *arguments],
            env=self.env,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=180,
        )

    def json(self, *arguments: str | Path) -> Any:
        done = self.run(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    @property
    def url(self) -> str:
        return str(self.json("status")["api"])

    def nothing_is_left(self) -> bool:
        """Tell whether no server lives: each holds the lock of its directory while it does."""
        directories = (self.data_dir, self.data_dir / "kafka", self.data_dir / "postgres")
        return not any(DirectoryLock(directory).is_held() for directory in directories)


@pytest.fixture(scope="module")
def up() -> Iterator[Up]:
    # Not under pytest's own directory: that is closed to the account Postgres runs as.
    directory = Path(tempfile.mkdtemp(prefix="chronica-test-"))
    directory.chmod(0o755)
    up = Up(directory)
    try:
        up.start()
        yield up
    finally:
        if up.process is not None:
            up.stop(signal.SIGTERM)
        DataDir(up.data_dir).remove()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module")
def chats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small file: two conversations, five messages, six acta."""
    calls = [{"id": "k1", "type": "function", "function": {"name": "find", "arguments": "{}"}}]
    messages: list[dict[str, Any]] = [
        {"conversation": "dinner", "index": 0, "role": "system", "content": "Be \x1b[31mkind"},
        {"conversation": "lunch", "index": 0, "role": "user", "content": "Salad \ud800 or soup?"},
        {"conversation": "dinner", "index": 1, "role": "user", "content": "A table, please."},
        {
            "conversation": "dinner",
            "index": 2,
            "role": "assistant",
            "content": "I look.",
            "tool_calls": calls,
        },
        {
            "conversation": "dinner",
            "index": 3,
            "role": "tool",
            "content": "",
            "tool_call_id": "k1",
            "name": "find",
        },
    ]
    file = tmp_path_factory.mktemp("chats") / "chats.jsonl"
    file.write_text("".join(json.dumps(message) + "\n" for message in messages))
    return file


@pytest.fixture(scope="module")
def dinner(up: Up, chats: Path) -> list[dict[str, Any]]:
    """The acta of one of the conversations, imported once."""
    assert up.json(*import_of(chats)) == counts(recorded=6)
    acta: list[dict[str, Any]] = up.json("window", "dinner", "--owner", "ardian")["acta"]
    return acta


def counts(recorded: int = 0, duplicate: int = 0, refused: int = 0) -> dict[str, int]:
    return {"recorded": recorded, "duplicate": duplicate, "refused": refused, "empty": 0}


def import_of(file: Path, owner: str = "ardian") -> list[str | Path]:
    return ["import", file, "--format", "openai-chat", "--owner", owner]


def window_over_http(client: httpx.Client, chronicum: str, owner: str) -> list[dict[str, Any]]:
    answer = client.get(f"/v1/chronica/{chronicum}/acta", headers={"Chronica-Owner": owner})
    assert answer.status_code == 200, answer.text
    acta: list[dict[str, Any]] = answer.json()["acta"]
    return acta


def test_status_tells_machines_where_everything_is(up: Up) -> None:
    status = up.json("status")
    assert set(status) == {"api", "kafka", "postgres", "ready", "lag"}
    assert status["ready"] is True
    assert status["api"].startswith("http://127.0.0.1:")
    assert status["kafka"].startswith("127.0.0.1:")
    assert set(status["lag"]["acta"]) == {str(n) for n in range(8)}
    shown = up.run("status")
    assert shown.returncode == 0
    password = status["postgres"].split(":")[2].split("@")[0]
    assert password not in shown.stdout
    assert password not in up.said(), "nor does `up` print it"


def test_the_postgres_address_works(up: Up) -> None:
    env = up.env | {"CHRONICA_POSTGRES_DSN": up.json("status")["postgres"]}
    env["CHRONICA_DATA_DIR"] = "/nowhere"
    done = subprocess.run([CHRONICA, "migrate"], env=env, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_second_up_on_the_same_data_is_refused(up: Up) -> None:
    done = up.run("up", "--port", "0")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("Error: ")
    assert "in use" in done.stderr
    assert "Stopping" not in done.stderr
    assert "Traceback" not in done.stderr
    assert up.json("status")["ready"], "the first is not disturbed"


def test_a_port_that_is_taken_is_refused_before_anything_starts(up: Up, tmp_path: Path) -> None:
    port = up.url.rpartition(":")[2]
    done = up.run("up", "--data-dir", tmp_path / "other", "--port", port)
    assert done.returncode == 1
    assert f"Port {port}" in done.stderr
    assert not (tmp_path / "other").exists()
    assert "Stopping" not in done.stderr


def test_an_import_records_each_part_once(
    up: Up, chats: Path, dinner: list[dict[str, Any]]
) -> None:
    assert up.json(*import_of(chats)) == counts(duplicate=6)
    assert [(a["seq"], a["kind"], a["actor_kind"], a["actor"]) for a in dinner] == [
        (1, "message", "system", "system"),
        (2, "message", "human", "ardian"),
        (3, "message", "agent", "assistant"),
        (4, "tool_request", "agent", "assistant"),
        (5, "tool_response", "system", "find"),
    ]
    assert dinner[0]["content"] == "Be \x1b[31mkind"
    with httpx.Client(base_url=up.url) as client:
        assert window_over_http(client, "dinner", "ardian") == dinner


def test_a_bad_line_and_a_foreign_conversation_are_refused_and_the_rest_is_recorded(
    up: Up, tmp_path: Path
) -> None:
    def line(conversation: str, index: int) -> str:
        fields = {"conversation": conversation, "index": index, "role": "user", "content": "x"}
        return json.dumps(fields) + "\n"

    file = tmp_path / "mixed.jsonl"
    file.write_text(line("of-one", 0))
    assert up.json(*import_of(file, "one"))["recorded"] == 1
    file.write_text(line("of-two", 0) + '{"conversation":\n' + line("of-one", 1))
    done = up.run(*import_of(file, "two"), "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout) == counts(recorded=1, refused=2)
    assert "Line 2: it is not JSON" in done.stderr
    assert "Line 3: Chronicum 'of-one' was not found." in done.stderr, "as for anyone"


def test_standard_input_is_imported_as_it_comes_and_can_be_interrupted(up: Up) -> None:
    said = [{"conversation": "piped", "role": "user", "content": f"{n}"} for n in range(2)]
    with subprocess.Popen(
        [CHRONICA, *import_of(Path("-"))],
        env=up.env,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write("".join(json.dumps(each) + "\n" for each in said))
        process.stdin.flush()
        deadline = time.monotonic() + 30
        while up.run("window", "piped", "--owner", "ardian", "--json").stdout.count('"id"') < 2:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 1, "though the pipe is still open"
        assert "2 acta were recorded" in process.stderr.read()
    done = subprocess.run(
        [CHRONICA, *import_of(Path("-")), "--json"],
        env=up.env,
        input="".join(json.dumps(each) + "\n" for each in [*said, said[0] | {"content": ""}]),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert json.loads(done.stdout) == counts(duplicate=2) | {"empty": 1}, done.stderr


def test_a_damaged_file_is_refused_whole(up: Up, chats: Path, tmp_path: Path) -> None:
    file = tmp_path / "cut.jsonl.gz"
    file.write_bytes(gzip.compress(chats.read_bytes() * 100)[:-20])
    done = up.run(*import_of(file, "cutter"))
    assert done.returncode == 1
    assert "damaged" in done.stderr
    assert "nothing was imported" in done.stderr


def test_a_window_is_a_table_that_no_content_breaks(up: Up, dinner: list[dict[str, Any]]) -> None:
    shown = up.run("window", "dinner", "--owner", "ardian")
    assert shown.returncode == 0
    assert r"Be \x1b[31mkind" in shown.stdout
    assert "\x1b" not in shown.stdout
    assert r"Salad \ud800" in up.run("window", "lunch", "--owner", "ardian").stdout
    chosen = up.json(
        *("window", "dinner", "--owner", "ardian", "--kind", "message", "--kind", "tool_response"),
        *("--actor-kind", "system", "--last-n", "1"),
    )
    assert [actum["seq"] for actum in chosen["acta"]] == [5]
    contradiction = up.run(
        "window", "dinner", "--owner", "ardian", "--kind", "tool_request", "--whole-calls"
    )
    assert contradiction.returncode == 1
    assert contradiction.stderr.startswith("Error: ")


def test_a_stranger_is_told_what_anyone_is_told_of_nothing(
    up: Up, dinner: list[dict[str, Any]]
) -> None:
    stranger = up.run("window", "dinner", "--owner", "mallory")
    missing = up.run("window", "no-such-dinner", "--owner", "mallory")
    assert stranger.returncode == missing.returncode == 1
    assert stranger.stderr == missing.stderr.replace("no-such-dinner", "dinner")


def test_another_recorder_shares_the_work_and_stops_at_once(up: Up) -> None:
    process = subprocess.Popen(
        [CHRONICA, "recorder"], env=up.env, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert "recorder starts" in process.stderr.readline()
    time.sleep(4)  # a tick of the other to give up its half, one of this to claim it, one to tell
    process.send_signal(signal.SIGTERM)
    begun = time.monotonic()
    said = process.communicate(timeout=20)[1]
    assert process.returncode == 0, said
    assert "recorder holds partitions=" in said
    assert time.monotonic() - begun < 6
    assert "recorder stopped" in said


def test_a_killed_server_is_started_again(up: Up) -> None:
    pid = int((up.data_dir / "postgres" / "data" / "postmaster.pid").read_text().split()[0])
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 30
    while "Postgres serves again" not in up.said():
        assert time.monotonic() < deadline, up.said()
        time.sleep(0.1)
    while up.run("status").returncode != 0:
        assert time.monotonic() < deadline, up.said()


def expected(message: dict[str, Any], owner: str) -> list[dict[str, Any]]:
    """The acta of a message of the file, written down anew from the issue's words."""
    content, role = message["content"], message["role"]
    if role == "tool":
        return [
            {
                "kind": "tool_response",
                "actor_kind": "system",
                "actor": message["name"],
                "content": content or "",
                "call_id": message["tool_call_id"],
            }
        ]
    actor_kind, actor = {
        "system": ("system", "system"),
        "user": ("human", owner),
        "assistant": ("agent", "assistant"),
    }[role]
    by = {"actor_kind": actor_kind, "actor": actor}
    acta = [{"kind": "message", **by, "content": content, "call_id": None}] if content else []
    for call in message.get("tool_calls") or []:
        acta.append({"kind": "tool_request", **by, "content": call, "call_id": call["id"]})
    return acta


def test_the_airline_conversations_are_in_the_log_as_in_the_file(up: Up) -> None:
    if not AIRLINE.exists():
        pytest.skip("LEFT OUT: ../shared/data/tau-bench/airline.jsonl.gz is not there")
    wanted: dict[str, list[dict[str, Any]]] = {}
    for line in gzip.decompress(AIRLINE.read_bytes()).splitlines():
        message = json.loads(line)
        wanted.setdefault(message["conversation"], []).extend(expected(message, "carla"))

    begun = time.monotonic()
    assert up.json(*import_of(AIRLINE, "carla")) == counts(recorded=3987)
    print(f"import of 3,987 acta: {time.monotonic() - begun:.1f} s")
    assert up.json(*import_of(AIRLINE, "carla")) == counts(duplicate=3987)

    with httpx.Client(base_url=up.url, timeout=30) as client, ThreadPoolExecutor(4) as pool:
        windows = dict(
            zip(
                wanted,
                pool.map(lambda one: window_over_http(client, one, "carla"), wanted),
                strict=True,
            )
        )
    assert len(windows) == 150
    for conversation, acta in windows.items():
        assert [actum["seq"] for actum in acta] == list(range(1, len(acta) + 1))
        for actum in acta:
            if actum["kind"] == "tool_request":
                actum["content"] = json.loads(actum["content"])
        shown = [{name: actum[name] for name in wanted[conversation][0]} for actum in acta]
        assert shown == wanted[conversation]
    kinds = Counter(actum["kind"] for acta in windows.values() for actum in acta)
    assert kinds == {"message": 2263, "tool_request": 862, "tool_response": 862}


def test_ctrl_c_stops_all_and_the_data_is_there_at_the_next_up(
    up: Up, chats: Path, dinner: list[dict[str, Any]]
) -> None:
    assert up.stop(signal.SIGINT) == 0, up.said()
    assert up.said().splitlines()[-1] == f"Stopped. The data is kept in {up.data_dir}."
    assert "Traceback" not in up.said()
    assert up.nothing_is_left()
    assert up.run("status").returncode == 1
    up.start()
    assert up.json("window", "dinner", "--owner", "ardian")["acta"] == dinner
    assert up.json(*import_of(chats))["duplicate"] == 6


def test_the_demo_can_be_run_again_and_leaves_nothing_running(up: Up) -> None:
    demo = Up(up.data_dir)  # its default directory is inside the one of a stack that runs
    for _ in range(2):
        done = up.run("demo")
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        said = " ".join(done.stdout.split())
        assert "Recorded 12 acta of 6 actors" in said
        assert "nothing changed" in said
        assert "was not found" in said
        assert "bookings-api" in said
        assert " ms" in said
        demo.data_dir = up.data_dir / "demo"
        assert demo.nothing_is_left()


def test_a_stack_that_cannot_be_prepared_is_stopped_again(up: Up) -> None:
    other = up.data_dir / "demo"
    done = up.run("up", "--data-dir", other, "--port", "0", "--partitions", "3")
    assert done.returncode == 1
    assert "8 partitions" in done.stderr or "needs an empty" in done.stderr
    assert "Traceback" not in done.stderr
    demo = Up(up.data_dir)
    demo.data_dir = other
    assert demo.nothing_is_left()
