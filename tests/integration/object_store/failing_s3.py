"""
moto's S3, which stops answering after some request: ``failing_s3.py PORT``.

``PUT /outage?after=3&status=503`` lets three more requests through and then answers with that status, until
``DELETE /outage``, which returns how many requests there were since. With ``&loses=9``, only
nine requests get that answer, and they take effect all the same.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qs

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

OUTAGE = "/outage"


class FailingS3:
    """
    A layer in front of an application.

    :param application: what answers as long as there is no outage.
    """

    def __init__(self, application: Application) -> None:
        self._application = application
        self._lock = threading.Lock()
        self._requests = 0
        self._out = range(0)
        self._status = ""
        self._loses = False

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a request."""
        if environ["PATH_INFO"] == OUTAGE:
            return self._set_outage(environ, start_response)
        with self._lock:
            out = self._requests in self._out
            self._requests += 1
        if not out:
            return self._application(environ, start_response)
        if self._loses:
            list(self._application(environ, lambda *_: None))
        body = b"<Error><Code>AccessDenied</Code><Message>there is an outage</Message></Error>"
        start_response(self._status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
        return [body]

    def _set_outage(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        asked = parse_qs(environ["QUERY_STRING"])
        with self._lock:
            answer = str(self._requests).encode()
            self._requests = 0
            self._loses = "loses" in asked
            begin = int(asked["after"][0]) if "after" in asked else sys.maxsize
            self._out = range(begin, begin + int(asked["loses"][0]) if self._loses else sys.maxsize)
            self._status = f"{asked['status'][0]} Outage" if "status" in asked else ""
        start_response("200 OK", [("Content-Length", str(len(answer)))])
        return [answer]


if __name__ == "__main__":
    run_simple(
        "127.0.0.1",
        int(sys.argv[1]),
        FailingS3(DomainDispatcherApplication(create_backend_app)),
        threaded=True,
        request_handler=MotoRequestHandler,
    )
