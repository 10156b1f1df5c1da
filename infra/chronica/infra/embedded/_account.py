"""Who Postgres runs as: ourselves, or, since it refuses root, a system account of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from ._errors import ServerAccountError

__all__ = ["ACCOUNT_NAME", "Account", "can_run", "can_use_directory", "server_account"]

ACCOUNT_NAME = "chronica"
_TRIES = 20


@dataclass(frozen=True)
class Account:
    """A system account that a server runs as."""

    name: str
    uid: int
    gid: int


def server_account() -> Account | None:
    """Return the account to run Postgres as, making it if need be; None means ourselves.

    Raises:
        ServerAccountError: we are root and the account can't be made.
    """
    if os.geteuid() != 0:
        return None
    refusal = "useradd is not installed"
    for _ in range(_TRIES):
        account = _find()
        if account is not None:
            return account
        useradd = shutil.which("useradd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
        if useradd is None:
            break
        done = subprocess.run(  # noqa: S603  (a fixed command)
            [
                *(useradd, "--system", "--user-group", "--no-create-home"),
                *("--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin", ACCOUNT_NAME),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        refusal = done.stderr.strip() or refusal
        if done.returncode != 0:
            # Another start makes it at this moment, or holds the lock on the file of accounts.
            time.sleep(0.25)
    account = _find()
    if account is None:
        raise ServerAccountError(
            f"Postgres doesn't run as root, and the system account '{ACCOUNT_NAME}' for it can't "
            f"be made ({refusal}): make it by hand, or start Chronica as another user."
        )
    return account


def can_use_directory(account: Account, directory: Path) -> bool:
    """Tell whether the account gets through to a directory; asks the kernel, not the modes."""
    return _succeeds(account, ["/bin/sh", "-c", 'cd -- "$1"', "sh", str(directory)])


def can_run(account: Account, program: Path) -> bool:
    """Tell whether the account can run a program with ``--version``."""
    return _succeeds(account, [str(program), "--version"])


def _find() -> Account | None:
    try:
        entry = pwd.getpwnam(ACCOUNT_NAME)
    except KeyError:
        return None
    if entry.pw_uid == 0:
        return None
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _succeeds(account: Account, command: list[str]) -> bool:
    try:
        done = subprocess.run(  # noqa: S603  (our own command)
            command,
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            user=account.uid,
            group=account.gid,
            extra_groups=[],
        )
    except OSError:
        return False
    return done.returncode == 0
