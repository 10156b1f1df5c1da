"""Run a server's own tool, such as initdb, to its end."""

from __future__ import annotations

import subprocess
from pathlib import Path

from ._account import Account
from ._errors import StartError

__all__ = ["run_tool"]

_TIMEOUT_S = 120.0


def run_tool(
    what: str,
    command: list[str],
    *,
    account: Account | None,
    env: dict[str, str],
    cwd: Path,
    text: str = "",
) -> None:
    """Run a tool and wait for it.

    Args:
        what: what it does, as the subject of a sentence.
        command: the tool and its arguments.
        account: who to run it as; None means ourselves.
        env: its environment, whole.
        cwd: where it runs.
        text: its standard input.

    Raises:
        StartError: it can't be run, hangs, or fails; the message has the end of its output.
    """
    try:
        done = subprocess.run(  # noqa: S603  (our own command)
            command,
            cwd=cwd,
            env=env,
            input=text.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_TIMEOUT_S,
            check=False,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
        )
    except subprocess.TimeoutExpired as error:
        raise StartError(
            f"{what} took more than {_TIMEOUT_S:.0f} s: see whether the machine is short of "
            "memory or its disk very slow, then start again."
        ) from error
    except OSError as error:
        raise StartError(
            f"{what} can't be done, because {command[0]} can't be run ({error.strerror}): install "
            "Chronica's [embedded] packages again."
        ) from error
    if done.returncode != 0:
        output = done.stdout.decode(errors="replace").strip().splitlines()[-8:]
        raise StartError(f"{what} failed; its last words:\n" + "\n".join(f"  {x}" for x in output))
