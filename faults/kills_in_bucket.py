"""The campaign :mod:`faults.kills` with every table in a bucket of a server with the API of S3."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

from airflow_backfill_provider.applications.spark_settings import storage_options_to_environment
from faults.campaign import Campaign, Outcome, Play
from faults.kills import play_kills
from faults.spark import spark_session
from faults.table_shapes import SHAPES
from tests.connect_server import address_of
from tests.integration.s3.bucket import BucketLakehouse
from tests.integration.s3.server import running_s3


@contextmanager
def _stage() -> Iterator[Play]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="backfill-faults-")))
        server = stack.enter_context(running_s3(folder))
        # The attempts find the bucket as applications do.
        stack.enter_context(patch.dict(os.environ, storage_options_to_environment(server.storage_options)))
        spark = stack.enter_context(spark_session())
        remote = address_of(spark)

        def play(case: int, random: random.Random) -> Outcome:
            lakehouse = BucketLakehouse(spark, server, f"job-{case}")
            return play_kills(lakehouse, remote, SHAPES[case % len(SHAPES)], random)

        yield play


CAMPAIGN = Campaign(
    name="kills-in-bucket",
    about="the same kills, with every table in a bucket",
    quick=1,
    full=32,
    checks="kills",
    stage=_stage,
)
