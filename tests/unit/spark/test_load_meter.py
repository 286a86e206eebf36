"""What Spark's monitoring API says about its cluster and stages; tests/integration/engine/test_auto_rate.py asks it."""

import datetime as dt

import pytest

from airflow_backfill_provider.spark.load_meter import bytes_of, cluster_of, work_of

BEGAN = dt.datetime(2026, 3, 29, 1, 30, tzinfo=dt.UTC)


def stage(**changes):
    return {
        "submissionTime": "2026-03-29T01:30:05.000GMT",
        "firstTaskLaunchedTime": "2026-03-29T01:30:07.500GMT",
        "executorRunTime": 1000,
        "jvmGcTime": 100,
        "diskBytesSpilled": 0,
        **changes,
    }


def executor(**changes):
    return {"id": "1", "isActive": True, "totalCores": 4, "maxMemory": 600, **changes}


@pytest.mark.parametrize(
    ("size", "count"),
    [
        *[("2g", 2 << 30), ("512m", 512 << 20), ("512", 512 << 20), ("1GB", 1 << 30), ("8k", 8192), ("1t", 1 << 40)],
        *[("much", None), ("", None), ("1.5g", None), ("2p", None)],
    ],
)
def test_sizes_are_read_as_spark_writes_them(size, count):
    assert bytes_of(size) == count


def test_the_cluster_is_its_working_executors_together():
    """The driver of a cluster has no slots, and an executor that is gone has none any more."""
    found = cluster_of([executor(id="driver", totalCores=0), executor(), executor(id="2"), executor(isActive=False)])
    assert found == {"slots": 8, "memory_bytes": 2000}
    assert cluster_of([executor(id="driver", totalCores=0)]) == {}
    assert cluster_of([{"isActive": True, "totalCores": 4}]) == {"slots": 4, "memory_bytes": None}


def test_the_work_is_that_of_the_stages_since_the_epoch_began():
    before = stage(submissionTime="2026-03-29T01:29:59.999GMT", diskBytesSpilled=99, jvmGcTime=900)
    found = work_of([before, stage(diskBytesSpilled=7), stage(jvmGcTime=300)], BEGAN)
    assert found == {"spilled_bytes": 7, "gc_share": 0.2, "queued_seconds": 5.0}


def test_an_epoch_without_stages_is_not_late():
    assert work_of([], BEGAN) == {"spilled_bytes": 0, "gc_share": 0.0, "queued_seconds": 0.0}


@pytest.mark.parametrize("missing", ["submissionTime", "firstTaskLaunchedTime"])
def test_a_stage_that_does_not_say_when_it_ran_did_not_wait(missing):
    assert work_of([stage(**{missing: None})], BEGAN)["queued_seconds"] == 0.0
