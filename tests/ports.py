"""Where a test's own servers can listen."""

from __future__ import annotations

import errno
import random
import socket

_PORTS = range(12_000, 30_000)
"""Below the ports that Linux and macOS give to connections: none takes a port before its server listens."""

# Of its own, since tests give the module's random numbers a seed, and then all workers would ask for the same ports.
_chance = random.SystemRandom()


def free_port() -> int:
    """Return a free port of this machine, one that tests beside this one hardly ask for, too."""
    while True:
        port = _chance.choice(_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError as taken:
                if taken.errno not in (errno.EADDRINUSE, errno.EACCES):
                    raise
            else:
                return port
