"""Run one server for as long as its starter lives, then stop it properly.

This file is a program of its own, run by path with nothing but the standard library, because it
must start in milliseconds and outlive a starter that is killed. Its one argument is JSON:

    command     the server and its arguments
    cwd, env    where and with what it runs
    user        [uid, gid] to run it as, or null
    parent      pid of the starter
    lock        an open file to pass on: the directory's lock, held until the last process ends
    stops       [[signal, wait_s], ...]: how to end the server, each step if the one before failed

It writes the server's pid on standard output, then waits. The starter's death shows as the end
of standard input or as another parent; SIGTERM is the starter asking for a stop. It exits as the
server did.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
from typing import Any

_PR_SET_PDEATHSIG = 1
_PARENT_POLL_S = 0.5


def main() -> int:
    """Start the server, watch over it, and return its exit status."""
    spec = json.loads(sys.argv[1])
    wake_read, wake_write = os.pipe()
    for end in (wake_read, wake_write):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake_write)
    asked_to_stop: list[int] = []
    # Handlers, not SIG_IGN: an ignored signal would stay ignored in the server.
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGHUP, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda number, _: asked_to_stop.append(number))

    server = _start(spec)
    os.write(1, f"{server.pid}\n".encode())
    os.close(1)

    while server.poll() is None:
        readable, _, _ = select.select([0, wake_read], [], [], _PARENT_POLL_S)
        if wake_read in readable:
            os.read(wake_read, 4096)
        starter_died = os.getppid() != spec["parent"] or (0 in readable and not os.read(0, 4096))
        if asked_to_stop or starter_died:
            _stop(server, spec["stops"])
    code = server.returncode
    return code if code >= 0 else 128 - code


def _start(spec: dict[str, Any]) -> subprocess.Popen[bytes]:
    identity: dict[str, Any] = {}
    if spec["user"] is not None:
        uid, gid = spec["user"]
        identity = {"user": uid, "group": gid, "extra_groups": []}
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    first_signal = spec["stops"][0][0]

    def follow_the_guard() -> None:
        # Linux only: should this guard itself be killed, the server is still asked to stop.
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, first_signal, 0, 0, 0)

    return subprocess.Popen(  # noqa: S603  (the command is our own)
        spec["command"],
        cwd=spec["cwd"],
        env=spec["env"],
        stdin=subprocess.DEVNULL,
        stdout=2,
        stderr=2,
        pass_fds=(spec["lock"],),
        preexec_fn=follow_the_guard,  # noqa: PLW1509  (this program has one thread)
        **identity,
    )


def _stop(server: subprocess.Popen[bytes], stops: list[tuple[int, float]]) -> None:
    for number, wait_s in stops:
        server.send_signal(number)
        try:
            server.wait(wait_s)
        except subprocess.TimeoutExpired:
            continue
        return
    server.kill()
    server.wait()


if __name__ == "__main__":
    sys.exit(main())
