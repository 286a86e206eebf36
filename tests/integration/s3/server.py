"""The server with the API of S3 that the tests start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from demo.s3_server import S3Server
from tests.ports import free_port


@contextmanager
def running_s3(folder: Path) -> Iterator[S3Server]:
    """Run a server, and stop it at the end."""
    with started(S3Server(folder, free_port())) as server:
        yield server


@contextmanager
def started(server: S3Server) -> Iterator[S3Server]:
    """Run one server, and stop it at the end."""
    server.start()
    try:
        yield server
    finally:
        server.stop()
