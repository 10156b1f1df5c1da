"""Where the stack is that a command is for: as set, else the one that runs in the data directory.

Never a part of the one and a part of the other: two stacks mixed would show one's state as the
other's.
"""

from __future__ import annotations

from pathlib import Path

from chronica.infra.embedded import RunningStack, read_running
from chronica.infra.settings import Settings

from ._terminal import CommandError

__all__ = ["no_stack", "postgres_dsn", "resolved", "running_in", "running_stack"]

_NOTE = "stack.json"


def running_stack(settings: Settings) -> RunningStack | None:
    """Return the stack that runs in the data directory, if no address is set that isn't its own.

    Raises:
        CommandError: the directory can't be read.
    """
    running = running_in(settings.data_dir)
    dsn = settings.postgres_dsn
    postgres = None if dsn is None else dsn.get_secret_value()
    if running is None or not running.is_at(settings.kafka_bootstrap_servers, postgres):
        return None
    return running


def resolved(settings: Settings) -> Settings:
    """Return settings with both addresses.

    Raises:
        CommandError: an address is missing, and no stack runs that could give it.
    """
    from chronica.store import resolve  # noqa: PLC0415  (heavy)

    set_both = settings.kafka_bootstrap_servers and settings.postgres_dsn is not None
    if not set_both and running_stack(settings) is None:
        raise CommandError(no_stack(settings))
    return resolve(settings)


def postgres_dsn(settings: Settings) -> str:
    """Return the connection string: as set, else that of the stack in the data directory.

    Raises:
        CommandError: there is neither.
    """
    if settings.postgres_dsn is not None:
        return settings.postgres_dsn.get_secret_value()
    running = running_stack(settings)
    if running is None:
        raise CommandError(no_stack(settings))
    return running.postgres


def no_stack(settings: Settings) -> str:
    """Return the sentence for an address that nothing gives."""
    if running_in(settings.data_dir) is not None:
        kafka = bool(settings.kafka_bootstrap_servers)
        is_set = "CHRONICA_KAFKA_BOOTSTRAP_SERVERS" if kafka else "CHRONICA_POSTGRES_DSN"
        missing = "CHRONICA_POSTGRES_DSN" if kafka else "CHRONICA_KAFKA_BOOTSTRAP_SERVERS"
        return (
            f"The Chronica that runs in {settings.data_dir} is another than the one that {is_set} "
            f"is for: set {missing} too, or unset {is_set} to use the one that runs."
        )
    return (
        f"No Chronica runs in {settings.data_dir}: start one with `chronica up`, or set "
        "CHRONICA_KAFKA_BOOTSTRAP_SERVERS and CHRONICA_POSTGRES_DSN."
    )


def running_in(data_dir: Path) -> RunningStack | None:
    """Return the stack that runs in a data directory, whatever is set.

    Raises:
        CommandError: the directory can't be read.
    """
    try:
        # Asked by opening it: whether a file exists, Python answers with no where it may not look.
        (data_dir / _NOTE).open("rb").close()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise CommandError(
            f"The data directory {data_dir} can't be read ({error.strerror}): run the "
            "command as the user who started the stack, or choose another with --data-dir. "
            "Nothing was changed."
        ) from error
    return read_running(data_dir)
