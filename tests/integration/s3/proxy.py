"""
A proxy in front of a server, which counts requests, refuses some, and loses the answers of others.

It runs in a process of its own: deltalake keeps Python's lock during some of its requests, and a proxy in the same
process could not answer them.
"""

from __future__ import annotations

import http.client
import random
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import get_context
from multiprocessing.managers import BaseManager
from pathlib import Path
from typing import Any

from demo.s3_server import S3Server

HANGS, LOSES, REFUSES = 0.01, 0.1, 0.03
"""How many requests fail in which way, of those that fail at random."""

_OF_CONNECTIONS = {"connection", "transfer-encoding", "keep-alive"}


@dataclass(frozen=True, slots=True)
class Request:
    """
    A request that a client made.

    :param method: its method.
    :param path: the object, with the request's parameters.
    :param client: ``spark`` or ``deltalake``.
    """

    method: str
    path: str
    client: str


class Kind(Enum):
    """How a request fails."""

    REFUSED = "refused"
    """The server answers with an error, and does nothing."""
    LOST = "lost answer"
    """The server does it, and the connection ends before the answer."""
    HALF_SENT = "half sent"
    """The connection ends in the middle of what the client sends."""
    HALF_ANSWERED = "half answered"
    """The connection ends in the middle of the answer."""
    HANGS = "hang"
    """The answer comes late."""


@dataclass(frozen=True, slots=True)
class Fault:
    """
    A fault of some requests.

    :param method: the method of these requests.
    :param text: a text in their paths.
    :param status: the error's status, if they are refused.
    :param seconds: how long the answer takes, if they hang.
    """

    kind: Kind
    method: str = "PUT"
    text: str = ""
    status: int = 503
    seconds: float = 3


class FailingProxy:
    """
    Passes requests on to a server.

    :param s3: the server.
    :param latency: how many seconds each request waits.
    """

    def __init__(self, s3: S3Server, latency: float = 0) -> None:
        self.s3 = s3
        self._latency = latency
        self._port = 0
        self._passing: Any = None

    def on_disk(self, location: str) -> Path:
        """Return where the server keeps the objects of a folder of a bucket."""
        return self.s3.on_disk(location)

    @property
    def root(self) -> str:
        """The URI of a bucket of its own; Hadoop keeps one client for each bucket."""
        return f"s3a://through-port-{self._port}"

    @property
    def storage_options(self) -> dict[str, str]:
        """The object store's options, with the proxy's address."""
        return {**self.s3.storage_options, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._port}"}

    @contextmanager
    def running(self) -> Iterator[FailingProxy]:
        """Serve until the block ends."""
        manager = _Manager(ctx=get_context("spawn"))
        manager.start()
        try:
            self._passing = manager.Passing(self.s3.port, self._latency)  # type: ignore[attr-defined]
            self._port = self._passing.port()
            self.s3.make_bucket(self.root.removeprefix("s3a://"))
            yield self
        finally:
            manager.shutdown()

    def requests(self) -> Sequence[Request]:
        """Return the requests since this was asked for last."""
        found: Sequence[Request] = self._passing.asked()
        return found

    def failures(self) -> Counter[str]:
        """Return how many requests failed since this was asked for last, by how they failed."""
        found: Counter[str] = self._passing.failures()
        return found

    @contextmanager
    def failing(self, fault: Fault, *, times: int) -> Iterator[None]:
        """Let the next requests of a kind fail."""
        self._passing.fail(fault, times)
        yield
        assert not self._passing.left(), f"there were not {times} such requests"

    @contextmanager
    def failing_at_random(self, chance: random.Random) -> Iterator[None]:
        """Refuse some of the requests, lose the answers of others, and let others wait, until the block ends."""
        self._passing.fail_by(chance)
        try:
            yield
        finally:
            self._passing.fail_by(None)


class _Passing:
    """
    The proxy in its own process.

    :param server: the server's port.
    :param latency: how many seconds each request waits.
    """

    def __init__(self, server: int, latency: float) -> None:
        self.server, self.latency = server, latency
        self._asked: list[Request] = []
        self._failed: Counter[str] = Counter()
        self._faults: list[Fault] = []
        self._chance: random.Random | None = None
        self._lock = threading.Lock()
        self._listens = _Listening(("127.0.0.1", 0), type("Handler", (_Handler,), {"passing": self}))
        threading.Thread(target=self._listens.serve_forever, daemon=True).start()

    def port(self) -> int:
        """Return where it listens."""
        return self._listens.server_port

    def asked(self) -> list[Request]:
        """Return the requests since this was asked for last."""
        with self._lock:
            asked, self._asked = self._asked, []
            return asked

    def failures(self) -> Counter[str]:
        """Return the failures since this was asked for last."""
        with self._lock:
            failed, self._failed = self._failed, Counter()
            return failed

    def fail(self, fault: Fault, times: int) -> None:
        """Let requests fail."""
        with self._lock:
            self._faults = [fault] * times

    def left(self) -> int:
        """Return how many requests are still to fail."""
        with self._lock:
            return len(self._faults)

    def fail_by(self, chance: random.Random | None) -> None:
        """Let requests fail at random."""
        with self._lock:
            self._chance = chance

    def fault_of(self, request: Request) -> Fault | None:
        """Note a request, and return how it fails."""
        with self._lock:
            self._asked.append(request)
            fault = self._drawn(request.method) if self._chance else self._next(request)
            if fault is not None:
                self._failed[str(fault.status) if fault.kind is Kind.REFUSED else fault.kind.value] += 1
            return fault

    def _next(self, request: Request) -> Fault | None:
        fault = self._faults[-1] if self._faults else None
        if fault is None or request.method != fault.method or fault.text not in request.path:
            return None
        return self._faults.pop()

    def _drawn(self, method: str) -> Fault | None:
        assert self._chance is not None
        drawn = self._chance.random()
        if drawn < HANGS:
            return Fault(Kind.HANGS, seconds=self._chance.uniform(0.5, 3))
        if drawn < HANGS + REFUSES:
            return Fault(Kind.REFUSED, status=self._chance.choice((500, 503)))
        return Fault(Kind.LOST) if method == "PUT" and drawn < HANGS + REFUSES + LOSES else None


class _Listening(ThreadingHTTPServer):
    """Accepts connections."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Write nothing of clients that went away."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """Passes the requests of one connection on."""

    protocol_version = "HTTP/1.1"
    # Else the content would wait for the client to acknowledge the headers, which takes 40 ms.
    disable_nagle_algorithm = True
    passing: _Passing

    def setup(self) -> None:
        """Begin a connection."""
        super().setup()
        self._upstream = http.client.HTTPConnection("127.0.0.1", self.passing.server, timeout=30)

    def finish(self) -> None:
        """End a connection."""
        self._upstream.close()
        super().finish()

    def _pass_on(self) -> None:
        client = "spark" if "Hadoop" in self.headers.get("User-Agent", "") else "deltalake"
        fault = self.passing.fault_of(Request(self.command, self.path, client))
        kind = fault.kind if fault else None
        length = int(self.headers.get("Content-Length") or 0)
        if kind is Kind.HALF_SENT:
            self._send(self.rfile.read(length // 2))
            self._upstream.close()
            return self._end()
        body = self.rfile.read(length)
        time.sleep(fault.seconds if fault and kind is Kind.HANGS else self.passing.latency)
        if fault and kind is Kind.REFUSED:
            self.send_response(fault.status)
            self.send_header("Content-Length", "0")
            return self.end_headers()
        self._send(body)
        answer = self._upstream.getresponse()
        content = answer.read()
        if kind is Kind.LOST:
            return self._end()
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _OF_CONNECTIONS | ({"content-length"} if self.command != "HEAD" else set()):
                self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if kind is Kind.HALF_ANSWERED:
            self.wfile.write(content[: len(content) // 2])
            return self._end()
        self.wfile.write(content)
        return None

    def _send(self, body: bytes) -> None:
        # The client has signed the name of the proxy.
        self._upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in _OF_CONNECTIONS | {"expect"}:
                self._upstream.putheader(name, value)
        self._upstream.endheaders(body)

    def _end(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on  # noqa: N815 - http.server's names

    def log_message(self, *_: object) -> None:
        """Write nothing."""


class _Manager(BaseManager):
    """The process of a proxy."""


_Manager.register("Passing", _Passing)
