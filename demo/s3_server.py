"""
A server with the API of S3 on loopback, which keeps its objects in a folder: versitygw.

``python -m demo.s3_server FOLDER PORT`` runs the server of a demo that has ended once more, until Ctrl-C.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import requests

PROGRAM = Path(os.environ.get("S3_SERVER") or Path(sys.prefix, "share", "airflow-backfill", "versitygw"))
"""The server's program; ``scripts/install_s3_server.sh`` builds it."""

ACCESS_KEY, SECRET_KEY = "lake-owner", "the-secret-key-of-the-lake"
START_SECONDS = 30


class S3Server:
    """
    One server with one bucket.

    :param folder: where it keeps its objects; on a file system with extended attributes.
    :param port: where it listens.
    :param access_key: the access key of its owner.
    :param secret_key: the secret key of its owner.
    """

    def __init__(self, folder: Path, port: int, access_key: str = ACCESS_KEY, secret_key: str = SECRET_KEY) -> None:
        self.folder = folder
        self.port = port
        self._access_key = access_key
        self._secret_key = secret_key
        # Hadoop keeps one client for each bucket in a JVM: two servers must not have a bucket of one name.
        self.bucket = f"lake-{port}"
        self._process: subprocess.Popen[bytes] | None = None

    def make_bucket(self, name: str) -> str:
        """Make a bucket, and return its URI."""
        (self.folder / "data" / name).mkdir(parents=True, exist_ok=True)
        return f"s3a://{name}"

    def on_disk(self, location: str) -> Path:
        """
        Return where the server keeps the objects of a folder of a bucket.

        :param location: the folder's URI.
        """
        return self.folder / "data" / location.removeprefix("s3a://")

    @property
    def endpoint(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def root(self) -> str:
        """The bucket's URI."""
        return f"s3a://{self.bucket}"

    @property
    def storage_options(self) -> dict[str, str]:
        """The object store's options, as deltalake takes them."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": self._access_key,
            "AWS_SECRET_ACCESS_KEY": self._secret_key,
        }

    @property
    def command(self) -> list[str]:
        """The command that runs the server in the foreground."""
        listens = ["--port", f"127.0.0.1:{self.port}", "--quiet", "--keep-alive"]
        return [str(PROGRAM), *listens, "posix", str(self.folder / "data")]

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the command; its keys must not be on its command line."""
        return {**os.environ, "ROOT_ACCESS_KEY": self._access_key, "ROOT_SECRET_KEY": self._secret_key}

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        self.make_bucket(self.bucket)
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                self.command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        deadline = time.monotonic() + START_SECONDS
        while not self.answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                text = (self.folder / "server.log").read_text(encoding="utf-8", errors="replace")
                raise RuntimeError(f"{PROGRAM} did not start: {text[-2000:]}")
            time.sleep(0.1)

    def stop(self) -> None:
        """End the server at once; its objects stay."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def answers(self) -> bool:
        """Return whether the server runs."""
        try:
            return requests.get(self.endpoint, timeout=2).status_code == requests.codes.forbidden
        except requests.RequestException:
            return False


if __name__ == "__main__":
    again = S3Server(Path(sys.argv[1]), int(sys.argv[2]))
    sys.exit(subprocess.run(again.command, env=again.environment, check=False).returncode)
