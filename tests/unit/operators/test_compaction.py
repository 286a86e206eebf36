"""Compacting a view as a task."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from deltalake import DeltaTable

from airflow_backfill_provider.operators.compaction import CompactMaterializedViewOperator
from tests.unit.stand_in import Lake, StandInSpark, context


@pytest.fixture
def created(as_created: Callable[[], Lake]) -> Lake:
    """The job, created."""
    return as_created()


def compact(lake: Lake, **arguments):
    operator = CompactMaterializedViewOperator(task_id="compact", job=lake.definition, **arguments)
    return operator.execute(context("compact"))


def test_a_view_in_many_files_is_compacted(created: Lake, spark: StandInSpark):
    created.scatter(6)

    summary = compact(created, compact_at=5)

    assert spark.submitted == [["backfill_compact.py", "--state", created.backfill.job.state, "--at", "5"]]
    assert summary == {
        "compacted": True,
        "view": {"files": 1, "saved_files": 0, "deleted_share": 0.0},
        "arrangement": None,
    }
    assert json.loads(json.dumps(summary)) == summary


def test_nothing_is_due_and_no_spark_is_started_below_the_minimum_saving(created: Lake, spark: StandInSpark):
    created.scatter(5)

    assert compact(created, compact_at=5) == {
        "compacted": False,
        "view": {"files": 5, "saved_files": 4, "deleted_share": 0.0},
        "arrangement": None,
    }
    assert compact(created)["compacted"] is False
    assert spark.submitted == []


def test_a_retry_finds_that_it_is_done(created: Lake, spark: StandInSpark):
    created.scatter(4)
    spark.after.append(("the machine went away", True))

    with pytest.raises(AirflowException, match="went away"):
        compact(created, compact_at=2)
    assert compact(created, compact_at=2)["compacted"] is False
    assert len(spark.submitted) == 1


def test_a_rendered_template_is_read(created: Lake, spark: StandInSpark):
    created.scatter(4)
    assert compact(created, compact_at="3", target_file_size=2**20)["compacted"] is True
    assert spark.submitted[0][-4:] == ["--at", "3", "--target-file-size", "1048576"]


@pytest.mark.parametrize("wrong", [0, "0", -1, "many", None, 1.5])
def test_an_invalid_number_of_files_is_refused(created: Lake, spark: StandInSpark, wrong):
    with pytest.raises(AirflowFailException, match="compact_at: .* is not a number of files"):
        compact(created, compact_at=wrong)


def test_a_job_that_was_not_created_is_refused(orders: Lake, spark: StandInSpark):
    with pytest.raises(AirflowFailException, match="create it first"):
        compact(orders)


def test_another_table_at_the_views_path_is_left_alone(created: Lake, spark: StandInSpark):
    """I6."""
    DeltaTable.create(
        created.definition["materialized_view"],
        DeltaTable(created.definition["upstream"]["path"]).schema(),
        mode="overwrite",
        configuration={"backfill.job": "another"},
        raise_if_key_not_exists=False,
    )
    with pytest.raises(AirflowFailException, match="does not hold the view of job small_orders"):
        compact(created, compact_at=1)
    assert spark.submitted == []
