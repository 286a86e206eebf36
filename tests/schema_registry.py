"""A schema registry of the tests' own: a small server that has the API."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NO_SCHEMA = (404, {"error_code": 40403, "message": "Schema 9 not found"})
NO_SUBJECT = (404, {"error_code": 40401, "message": "Subject not found"})


class RegistryServer(ThreadingHTTPServer):
    """A registry: its answers by path, and what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), RegistryHandler)
        self.answers: dict[str, list[tuple[int, object]]] = {}
        self.asked: list[tuple[str, str | None]] = []

    def answer(self, path: str, *answers: tuple[int, object]) -> None:
        """Answer a path with each of some answers in turn, and then always with the last."""
        self.answers[path] = list(answers)


class RegistryHandler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: RegistryServer

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers["Authorization"]))
        answers = self.server.answers.get(self.path, [(404, "no such page")])
        status, body = answers.pop(0) if len(answers) > 1 else answers[0]
        self.send_response(status)
        if status == 302:
            self.send_header("Location", str(body))
        self.end_headers()
        self.wfile.write(body.encode() if isinstance(body, str) else json.dumps(body).encode())

    def log_message(self, *_: object) -> None:
        """Write nothing."""


@contextmanager
def registry_server() -> Iterator[RegistryServer]:
    """Run a registry."""
    with RegistryServer() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield running
        finally:
            running.shutdown()
            thread.join()
