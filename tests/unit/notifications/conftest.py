"""An HTTP server that receives webhooks."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from tests.unit.notifications.webhooks import Webhooks


@pytest.fixture
def webhooks() -> Iterator[Webhooks]:
    """A server on loopback that remembers what was posted."""
    taken = Webhooks()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            taken.posts.append((self.path, dict(self.headers), json.loads(body)))
            time.sleep(taken.delay)
            with suppress(BrokenPipeError, ConnectionResetError):
                self._answer()

        def _answer(self) -> None:
            self.send_response(taken.answer)
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
            self.end_headers()
            while taken.endless:
                self.wfile.write(b"x" * 65_536)

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    taken.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield taken
    server.shutdown()
    thread.join()
    server.server_close()
