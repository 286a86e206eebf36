"""A proxy in front of a server, which does something as soon as the server has sent so many bytes."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_BYTES = 1 << 14


class Proxy:
    """
    Passes on connections to a server.

    :param port: the server's port on this machine.
    """

    def __init__(self, port: int) -> None:
        self._server = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._left: int | None = None
        self._acted = threading.Event()
        self._act: Callable[[], None] = self.cut
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def after(self, sent: int, act: Callable[[], None]) -> None:
        """Do something once, when the server has sent so many more bytes, before the next ones are passed on."""
        with self._lock:
            self._left, self._act = sent, act
            self._acted.clear()

    def require_acted(self) -> None:
        """Wait until that has been done; refuse to wait for what did not begin."""
        with self._lock:
            assert self._left is None, "the server has sent less"
        assert self._acted.wait(60)

    def cut(self) -> None:
        """Cut all connections; new ones can be made."""
        with self._lock:
            connections, self._open = self._open, []
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = self._connected()
                except OSError:
                    client.close()
                    continue
                with self._lock:
                    self._open += [client, server]
                threading.Thread(target=self._pass_on, args=(client, server, False), daemon=True).start()
                threading.Thread(target=self._pass_on, args=(server, client, True), daemon=True).start()

    def _connected(self) -> socket.socket:
        """Connect to the server, which cannot send much more than was passed on."""
        server = socket.socket()
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BYTES)
        server.connect(("127.0.0.1", self._server))
        return server

    def _pass_on(self, source: socket.socket, target: socket.socket, is_server: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_BYTES):
                if is_server and self._is_enough(len(data)):
                    self._act()
                    self._acted.set()
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _is_enough(self, sent: int) -> bool:
        with self._lock:
            if self._left is None:
                return False
            self._left -= sent
            if self._left > 0:
                return False
            self._left = None
            return True


@contextmanager
def proxy_of(port: int) -> Iterator[Proxy]:
    """Start a proxy of a server on this machine."""
    proxy = Proxy(port)
    try:
        yield proxy
    finally:
        proxy.close()
