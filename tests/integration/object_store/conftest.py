"""moto's S3 on loopback, in a separate process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
import requests
from deltalake import write_deltalake

from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.jobs import creation
from airflow_backfill_provider.jobs.backfill import Backfill
from tests.integration.object_store.no_engine import NoEngine
from tests.ports import free_port

ROWS = 100
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

    @contextmanager
    def outage(self, after: int, status: int, *, loses: int = 0) -> Iterator[None]:
        """
        Let some requests through, and answer the others with an error.

        :param loses: so many of them take effect all the same, and the ones after them are answered again.
        """
        asked = {"after": after, "status": status, **({"loses": loses} if loses else {})}
        requests.put(f"{self.endpoint}/outage", params=asked, timeout=30).raise_for_status()
        try:
            yield
        finally:
            self.requests()

    def requests(self) -> int:
        """End an outage, and return how many requests there were since this was asked for last."""
        return int(requests.delete(f"{self.endpoint}/outage", timeout=30).text)

    def listing(self) -> str:
        """Return what lies in the bucket, as the server lists it."""
        return requests.get(f"{self.endpoint}/{self.bucket}?list-type=2", timeout=30).text


@pytest.fixture(scope="session")
def _server() -> Iterator[str]:
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    # Not in a thread: deltalake holds Python's lock while it waits for an answer.
    server = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("failing_s3.py")), str(port)],
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
    return _new_bucket(_server, request.node.nodeid)


@pytest.fixture(scope="module")
def shared_s3(_server: str, request: pytest.FixtureRequest) -> S3:
    """A bucket for tests of a file that only look at what is in it."""
    return _new_bucket(_server, request.node.nodeid)


def _new_bucket(server: str, of: str) -> S3:
    bucket = f"lake-{abs(hash(of)):x}"
    requests.put(f"{server}/{bucket}", timeout=30).raise_for_status()
    return S3(server, bucket)


@pytest.fixture
def job(s3: S3) -> BackfillJob:
    """A created job whose tables all lie in the bucket."""
    write_deltalake(
        f"{s3.root}/orders",
        pa.table({"id": pa.array(range(ROWS), pa.int64())}),
        configuration={"delta.enableChangeDataFeed": "true"},
        storage_options=s3.options,
    )
    job = BackfillJob(
        name="in_a_bucket",
        upstream={"path": f"{s3.root}/orders", "key": ["id"]},
        materialized_view=f"{s3.root}/view",
        query="SELECT id FROM upstream",
        vnode_count=4,
        rate_limit=40,
    )
    backfill = Backfill(job, s3.options)
    creation.create_job(job, store=backfill.store, upstream=backfill.upstream, engine=NoEngine, requested_by="somebody")
    return job


def _answers(endpoint: str) -> bool:
    try:
        return requests.get(endpoint, timeout=5).ok
    except requests.ConnectionError:
        return False
