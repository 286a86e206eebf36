"""A test's server listens where it was told to, whatever connections are made before it starts."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.ports import free_port

GIVEN_TO_CONNECTIONS = Path("/proc/sys/net/ipv4/ip_local_port_range")


@pytest.mark.skipif(not GIVEN_TO_CONNECTIONS.exists(), reason="only Linux says which ports it gives to connections")
def test_no_connection_takes_a_port_before_its_server_listens():
    first, last = map(int, GIVEN_TO_CONNECTIONS.read_text().split())
    assert not any(first <= free_port() <= last for _ in range(100))


def test_a_port_is_free():
    port = free_port()
    with socket.socket() as server:
        server.bind(("127.0.0.1", port))
        server.listen()
        with socket.socket() as client:
            client.connect(("127.0.0.1", port))
