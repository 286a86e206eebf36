"""An adaptive rate limit, on real Spark: exact rows, and epochs whose sizes follow the rule."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_backfill_provider.applications.connect import connected
from airflow_backfill_provider.applications.spark_settings import spark_conf, spark_environment
from airflow_backfill_provider.core.epoch.auto_rate import RECENT, ChunkBounds, limit_in_force, measured_epochs
from airflow_backfill_provider.core.epoch.spark_load import SparkLoad
from airflow_backfill_provider.core.remote import Remote
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.spark.load_meter import LoadMeter
from tests.integration.engine.lakehouse import Lakehouse

pytestmark = pytest.mark.spark

TARGET = 3
"""Seconds that an epoch should take; on any machine a few epochs of a few hundred rows take less."""


@pytest.mark.exhaustive
def test_the_epochs_of_auto_follow_what_the_log_says_and_read_every_row_once(lakehouse: Lakehouse) -> None:
    lakehouse.make_upstream("id BIGINT, name STRING")
    rows = lakehouse.sql("SELECT id, concat('n', id) AS name FROM range(3000)")
    rows.repartitionByRange(3, "id").write.format("delta").mode("append").save(lakehouse.upstream_path)
    lakehouse.create(rate_limit=100)
    lakehouse.epoch()
    store = lakehouse.backfill.store
    mutations.throttle_job("auto", target_epoch_seconds=TARGET, store=store, requested_by="tester")
    lakehouse.sql("UPDATE {upstream} SET name = 'changed' WHERE id % 7 = 0")
    lakehouse.finish()

    lakehouse.assert_truth()
    lakehouse.assert_equals_query("SELECT * FROM {upstream}")
    barriers, commits = store.log()
    settings = store.settings()
    for n, barrier in enumerate(barriers[1:], 1):
        if not barrier.parts:
            continue
        measured = measured_epochs(barriers[:n], commits[:n], parallelism=1)[-RECENT:]
        held = barriers[n - 1].rate_limit if barriers[n - 1].rate else None
        load = measured[-1].load
        assert barrier.rate is not None
        found = limit_in_force(
            settings.rate,
            measured,
            ChunkBounds(held=held, row_bytes=barrier.rate.row_bytes, memory_bytes=load.memory_bytes if load else None),
        )
        assert (barrier.rate_limit, barrier.rate.reason) == (found.rows, found.reason)
        assert found.rows is not None
        assert commits[n].snapshot_read_row_count <= found.rows
        last = barriers[n - 1].rate_limit
        assert last is not None
        assert last // 2 <= found.rows <= 2 * last


def test_a_local_session_tells_its_size_and_not_its_load(lakehouse: Lakehouse) -> None:
    """Without Spark's web server nothing else is known, and nothing is guessed."""
    lakehouse.make_upstream("id BIGINT, name STRING")
    lakehouse.sql("INSERT INTO {upstream} VALUES (1, 'a')")
    lakehouse.create()
    commit = lakehouse.epoch()
    assert commit is not None
    assert commit.load is not None
    assert commit.load.slots
    assert commit.load.memory_bytes
    assert (commit.load.spilled_bytes, commit.load.gc_share, commit.load.queued_seconds) == (None, None, None)


def test_a_session_of_spark_connect_tells_its_servers_size_and_not_its_load(spark_remote: str) -> None:
    with connected(Remote.parse(spark_remote), what="load") as connection:
        meter = LoadMeter(connection.spark)
        connection.spark.range(10).collect()
        load = meter.load()
    assert load.slots
    assert (load.spilled_bytes, load.gc_share, load.queued_seconds) == (None, None, None)


MEASURED = """
import sys
from pyspark.sql import SparkSession
from airflow_backfill_provider.spark.load_meter import LoadMeter

spark = SparkSession.builder.getOrCreate()
spark.range(10).count()
calm = LoadMeter(spark)
spark.range(100_000).selectExpr("sum(id)").collect()
print(calm.load().model_dump_json())
late = LoadMeter(spark)
spark.range(200_000).repartition(4).selectExpr("hash(id) AS k", "id").sortWithinPartitions("k").write.format(
    "noop"
).mode("append").save()
print(late.load().model_dump_json())
spark.stop()
"""


@pytest.mark.exhaustive
def test_an_application_with_sparks_web_server_tells_what_it_spilled(tmp_path: Path) -> None:
    """Each measurement covers only what ran since it began."""
    conf = {
        **spark_conf("local[2]"),
        "spark.master": "local[2]",
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        # Spark spills every thousand rows, as it does if they don't fit into memory.
        "spark.shuffle.spill.numElementsForceSpillThreshold": "1000",
        "spark.sql.sortMergeJoinExec.buffer.spill.threshold": "1000",
    }
    (tmp_path / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in conf.items()))
    environment = {**spark_environment(), "SPARK_CONF_DIR": str(tmp_path)}
    script = tmp_path / "measured.py"
    script.write_text(MEASURED)

    ran = subprocess.run(
        [sys.executable, str(script)], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    calm, late = (SparkLoad.model_validate(json.loads(line)) for line in ran.stdout.splitlines()[-2:])
    assert calm.slots == late.slots == 2
    assert calm.memory_bytes
    assert calm.spilled_bytes == 0
    assert late.spilled_bytes
    assert late.lateness(60).startswith("it spilled")
    assert late.gc_share is not None
    assert late.queued_seconds is not None
