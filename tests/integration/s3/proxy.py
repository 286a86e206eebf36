"""A proxy in front of a server, which counts requests, refuses some, and loses the answers of others."""

from __future__ import annotations

import http.client
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from demo.s3_server import S3Server

HANGS, LOSES, REFUSES = 0.01, 0.1, 0.03
"""How many requests fail in which way, of those that fail at random."""

_OF_CONNECTIONS = {"connection", "transfer-encoding", "keep-alive"}


class FailingProxy(ThreadingHTTPServer):
    """
    Passes requests on to a server.

    :param s3: the server.
    :param latency: how many seconds each request waits.
    """

    daemon_threads = True

    def __init__(self, s3: S3Server, latency: float = 0) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.s3 = s3
        self.latency = latency
        # Hadoop keeps one client for each bucket, so each proxy has a bucket of its own.
        self.root = s3.make_bucket(f"through-port-{self.server_port}")
        self.counted: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self._chance: random.Random | None = None
        self._lock = threading.Lock()
        self._loses = 0
        self._answers: list[int] = []

    @property
    def storage_options(self) -> dict[str, str]:
        """The object store's options, with the proxy's address."""
        return {**self.s3.storage_options, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.server_port}"}

    def requests(self) -> int:
        """Return how many requests there were since this was asked for last."""
        with self._lock:
            total = self.counted.total()
            self.counted.clear()
            return total

    @contextmanager
    def running(self) -> Iterator[FailingProxy]:
        """Serve until the block ends."""
        thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield self
        finally:
            self.shutdown()
            thread.join()
            self.server_close()

    @contextmanager
    def losing_answers(self, times: int) -> Iterator[None]:
        """Pass on the next requests that create an object, and end the connection instead of answering."""
        self._loses = times
        yield
        assert not self._loses, "nothing was created"

    @contextmanager
    def answering(self, status: int, *, times: int) -> Iterator[None]:
        """Refuse the next requests that create an object."""
        self._answers = [status] * times
        yield
        assert not self._answers, "nothing was created"

    @contextmanager
    def failing_at_random(self, chance: random.Random) -> Iterator[None]:
        """Refuse some of the requests, lose the answers of others, and let others wait, until the block ends."""
        self._chance = chance
        try:
            yield
        finally:
            self._chance = None

    def waits(self) -> float:
        """Return how many seconds this request waits."""
        with self._lock:
            if self._chance is None or self._chance.random() >= HANGS:
                return self.latency
            self.failed["hang"] += 1
            return self._chance.uniform(0.5, 3)

    def loses(self, method: str) -> bool:
        """Tell whether to lose this answer."""
        with self._lock:
            if method == "PUT" and self._chance is not None and self._chance.random() < LOSES:
                self.failed["lost answer"] += 1
                return True
            if method != "PUT" or not self._loses:
                return False
            self._loses -= 1
            return True

    def refuses(self, method: str) -> int | None:
        """Return the status to refuse this request with."""
        with self._lock:
            self.counted[method] += 1
            if self._chance is not None and self._chance.random() < REFUSES:
                status = self._chance.choice((500, 503))
                self.failed[str(status)] += 1
                return status
            return self._answers.pop() if method == "PUT" and self._answers else None


class _Handler(BaseHTTPRequestHandler):
    """Passes one request on."""

    protocol_version = "HTTP/1.1"
    server: FailingProxy

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        time.sleep(self.server.waits())
        if status := self.server.refuses(self.command):
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.s3.port, timeout=30)
        # The client has signed the name of the proxy.
        upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in _OF_CONNECTIONS | {"expect"}:
                upstream.putheader(name, value)
        upstream.endheaders(body)
        answer = upstream.getresponse()
        content = answer.read()
        upstream.close()
        if self.server.loses(self.command):
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _OF_CONNECTIONS | ({"content-length"} if self.command != "HEAD" else set()):
                self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on  # noqa: N815 - http.server's names

    def log_message(self, *_: object) -> None:
        """Write nothing."""
