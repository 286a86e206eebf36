"""How many requests the steps of a job cost in a bucket; ``make bench ARGS=store`` lists them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_backfill_provider import protocol
from airflow_backfill_provider.jobs.backfill import Backfill
from bench.made_jobs import make_half_read_job
from bench.many_files import make_log
from tests.integration.engine.lakehouse import TESTER
from tests.integration.s3.bucket import BucketLakehouse, let_an_hour_pass
from tests.integration.s3.proxy import FailingProxy

pytestmark = pytest.mark.spark

MOST = {"poll": 1, "idle injection": 6, "injection": 29, "epoch": 55, "epoch of changes": 95}
"""How many requests a step may cost in a process that has run two before, on logs of a few commits."""


@pytest.mark.exhaustive
def test_few_requests(spark: SparkSession, proxy: FailingProxy, tmp_path: Path) -> None:
    lakehouse = BucketLakehouse(spark, proxy, tmp_path.name)
    lakehouse.make_upstream("id BIGINT, name STRING")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, concat('n', id) FROM range(9)")
    lakehouse.create(rate_limit=2, strategy="no_shuffle")
    let_an_hour_pass(lakehouse.on_disk(f"{proxy.root}/{tmp_path.name}"))
    backfill, counted = lakehouse.backfill, {}

    def inject() -> Any:
        return protocol.inject_barrier(store=backfill.store, upstream=backfill.upstream, requester=TESTER).barrier

    def run(barrier: Any) -> None:
        protocol.run_epoch(barrier, store=backfill.store, engine=lakehouse.engine)

    def count(step: str, action: Callable[[], Any]) -> Any:
        proxy.requests()
        result = action()
        counted[step] = [*proxy.requests()]
        return result

    for _ in range(3):
        barrier = count("injection", inject)
        count("epoch", lambda: run(barrier))  # noqa: B023 - called at once
    while (barrier := inject()) is not None:
        run(barrier)
    for number in range(2):
        lakehouse.sql(f"UPDATE {{upstream}} SET name = 'changed' WHERE id = {number}")
        barrier = inject()
        count("epoch of changes", lambda: run(barrier))  # noqa: B023 - called at once
    inject()
    assert count("idle injection", inject) is None
    watch = backfill.upstream.watch()
    watch.look()
    count("poll", watch.look)
    lakehouse.assert_truth()
    numbers = {step: len(requests) for step, requests in counted.items()}
    assert {step: count for step, count in numbers.items() if count > MOST[step]} == {}, counted
    log = f"{lakehouse.view_path.removeprefix('s3a:/')}/_delta_log/"
    of_log = [request.method for request in counted["epoch"] if request.client == "spark" and log in request.path]
    assert "GET" not in of_log[: of_log.index("PUT")], "commits were read before the epoch, and are read after it"
    assert "GET" in of_log


def test_an_injection_on_many_files_opens_few(proxy: FailingProxy, tmp_path: Path) -> None:
    folder, files = f"{proxy.root}/{tmp_path.name}", 10_000
    on_disk = proxy.on_disk(f"{folder}/orders")
    make_log(on_disk, files, commits=50)
    job = make_half_read_job(
        files,
        path=on_disk,
        upstream=f"{folder}/orders",
        storage_options=proxy.storage_options,
        name="many",
        materialized_view=f"{folder}/view",
    )
    backfill = Backfill(job, proxy.storage_options)
    proxy.requests()
    pinned = protocol.inject_barrier(store=backfill.store, upstream=backfill.upstream, requester=TESTER)
    assert pinned.barrier is not None
    requests = proxy.requests()
    assert len(requests) <= 85, requests
    of_upstream = [request for request in requests if "orders" in request.path]
    assert len(of_upstream) <= 26, "of 10,000 files, only the one is opened in which the chunk begins"
