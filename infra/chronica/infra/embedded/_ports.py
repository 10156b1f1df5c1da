"""Ports on loopback that stay the same from one start to the next."""

from __future__ import annotations

import json
import random
import socket
from pathlib import Path

from ._errors import PortTakenError, StartError
from ._files import write_atomically

__all__ = ["LOOPBACK", "PortBook", "free_port", "is_free"]

LOOPBACK = "127.0.0.1"

# Below the ports that Linux and macOS give to outgoing connections. A client that keeps trying to
# reach a stopped server on a port of that range ends up, sooner or later, connected to itself,
# and then the server can't have its port back.
_FIRST, _LAST = 20000, 29999
_random = random.SystemRandom()


def is_free(port: int) -> bool:
    """Tell whether a server could listen on this port of loopback now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: connections of the last one that linger in TIME_WAIT don't count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def free_port(*, besides: set[int] | None = None) -> int:
    """Find a port that nobody listens on, outside of those that clients are given.

    Raises:
        StartError: none was found in a thousand tries.
    """
    taken = besides or set()
    for _ in range(1000):
        port = _random.randint(_FIRST, _LAST)
        if port not in taken and is_free(port):
            return port
    raise StartError(f"No port between {_FIRST} and {_LAST} is free: stop what listens on them.")


class PortBook:
    """The ports of one server by name, kept in a file in its directory."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def choose(self, wanted: dict[str, int | None]) -> dict[str, int]:
        """Settle the ports of this start and note them for the next.

        Args:
            wanted: for each name the port that must be taken, or None for the one of the last
                start, or a free one at the first start or when another process has it by now.

        Raises:
            PortTakenError: a port that must be taken isn't free.
        """
        noted = self._read()
        chosen: dict[str, int] = {}
        for name, port in wanted.items():
            if port is not None and not is_free(port):
                raise PortTakenError(
                    f"Port {port} on {LOOPBACK} is taken by another process: stop that one, or "
                    f"choose another port for {name}."
                )
            last = noted.get(name)
            if port is not None:
                chosen[name] = port
            elif last is not None and last not in chosen.values() and is_free(last):
                chosen[name] = last
            else:
                chosen[name] = free_port(besides=set(chosen.values()))
        if chosen != noted:
            write_atomically(self._path, json.dumps(chosen) + "\n")
        return chosen

    def _read(self) -> dict[str, int]:
        try:
            noted = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        if not isinstance(noted, dict):
            return {}
        return {str(name): port for name, port in noted.items() if isinstance(port, int)}
