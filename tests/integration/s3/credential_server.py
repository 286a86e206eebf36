"""What gives out credentials in a cloud, on loopback: Amazon's token service, and an instance's metadata service."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs

from demo.s3_server import ACCESS_KEY, SECRET_KEY

ROLE = "lake-role"
WEB_TOKEN = "the-token-of-a-pod"

_ASSUMED = """<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>{key}</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey>
<SessionToken></SessionToken><Expiration>{until}</Expiration></Credentials>
<AssumedRoleUser><Arn>arn:aws:sts::1:assumed-role/{role}/test</Arn><AssumedRoleId>A:test</AssumedRoleId></AssumedRoleUser>
</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"""


class CredentialServer(ThreadingHTTPServer):
    """
    A server that gives out the keys of the bucket's owner.

    :param seconds: how long the keys are valid.
    """

    def __init__(self, seconds: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._seconds = seconds
        self.asked: Counter[str] = Counter()
        """Library → how often it got keys."""

    @classmethod
    @contextmanager
    def running(cls, seconds: int) -> Iterator[CredentialServer]:
        """Run a server, and stop it at the end."""
        with cls(seconds) as server:
            Thread(target=server.serve_forever, daemon=True).start()
            try:
                yield server
            finally:
                server.shutdown()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"

    def valid_until(self) -> str:
        """Return when keys that are given out now expire."""
        return (dt.datetime.now(dt.UTC) + dt.timedelta(seconds=self._seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: CredentialServer

    def do_PUT(self) -> None:
        """Open a session with the metadata service."""
        self._answer("a-session", ("X-aws-ec2-metadata-token-ttl-seconds", "21600"))

    def do_GET(self) -> None:
        """Answer as the metadata service."""
        folder, _, last = self.path.rpartition("/")
        if not folder.endswith("/security-credentials"):
            self._answer("", status=404)
        elif not last:
            self._answer(ROLE)
        else:
            self._note()
            given = {
                "Code": "Success",
                "Type": "AWS-HMAC",
                "AccessKeyId": ACCESS_KEY,
                "SecretAccessKey": SECRET_KEY,
                "Token": "",
                "Expiration": self.server.valid_until(),
            }
            self._answer(json.dumps(given))

    def do_POST(self) -> None:
        """Answer as the token service."""
        asked = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        if asked["Action"] != ["AssumeRoleWithWebIdentity"] or asked["WebIdentityToken"] != [WEB_TOKEN]:
            self._answer("", status=403)
            return
        self._note()
        text = _ASSUMED.format(key=ACCESS_KEY, secret=SECRET_KEY, until=self.server.valid_until(), role=ROLE)
        self._answer(text, ("Content-Type", "text/xml"))

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _note(self) -> None:
        agent = self.headers.get("User-Agent", "")
        self.server.asked["spark" if "java" in agent.lower() else "deltalake"] += 1

    def _answer(self, text: str, *headers: tuple[str, str], status: int = 200) -> None:
        content = text.encode()
        self.send_response(status)
        for name, value in (*headers, ("Content-Length", str(len(content)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)
