"""An S3 that answers on loopback: moto's, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import requests

from tests.ports import free_port

SECRET = "very-secret-access-key"


@dataclass(frozen=True)
class S3:
    """
    A bucket, and how to reach it.

    :param endpoint: where the server listens.
    :param bucket: the bucket's name.
    """

    endpoint: str
    bucket: str

    @property
    def options(self) -> dict[str, str]:
        """The object store's options, as deltalake takes them."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "somebody",
            "AWS_SECRET_ACCESS_KEY": SECRET,
        }

    @property
    def root(self) -> str:
        """The bucket's URI."""
        return f"s3a://{self.bucket}"

    def listing(self) -> str:
        """Return what lies in the bucket, as the server lists it."""
        return requests.get(f"{self.endpoint}/{self.bucket}?list-type=2", timeout=30).text


@pytest.fixture(scope="session")
def _server() -> Iterator[str]:
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    # Not in a thread: deltalake holds Python's lock while it waits for an answer.
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "MOTO_S3_CUSTOM_ENDPOINTS": endpoint},
    )
    try:
        until = time.monotonic() + 120
        while not _answers(endpoint):
            assert server.poll() is None, "moto did not start"
            assert time.monotonic() < until, "moto did not answer in time"
            time.sleep(0.1)
        yield endpoint
    finally:
        server.kill()
        server.wait()


@pytest.fixture
def s3(_server: str, request: pytest.FixtureRequest) -> S3:
    """A new bucket."""
    bucket = f"lake-{abs(hash(request.node.nodeid)):x}"
    requests.put(f"{_server}/{bucket}", timeout=30).raise_for_status()
    return S3(_server, bucket)


def _answers(endpoint: str) -> bool:
    try:
        return requests.get(endpoint, timeout=5).ok
    except requests.ConnectionError:
        return False
