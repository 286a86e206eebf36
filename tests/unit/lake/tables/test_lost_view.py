"""A view that somebody deleted, emptied, replaced or put back is noticed without Spark."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider.core.scan.table_version import TableVersion, TableVersions
from airflow_backfill_provider.lake.tables.lost_view import why_view_is_lost
from airflow_backfill_provider.lake.tables.view_identity import INCARNATION_PROPERTY, JOB_PROPERTY
from tests.builders import job_of, settings_of

ROWS = pa.table({"id": [1, 2], "day": ["ä b%", "c=d"]})


@pytest.fixture
def view(lake):
    """A view of two versions, with names of files that a log escapes."""
    path = lake / "view"
    make(path, "paid_orders", settings_of().incarnation)
    write_deltalake(str(path), ROWS, mode="append")
    return path


def make(path, job, incarnation):
    DeltaTable.create(
        str(path),
        ROWS.schema,
        partition_by=["day"],
        configuration={JOB_PROPERTY: job, INCARNATION_PROPERTY: incarnation},
        raise_if_key_not_exists=False,
    )


def lost(view, version=1) -> str:
    settings = settings_of(job_of(materialized_view=str(view)))
    return why_view_is_lost(settings, TableVersions(view=TableVersion(version=version)))


def empty(view):
    shutil.rmtree(view)
    view.mkdir()


def put_another_table_there(view):
    shutil.rmtree(view)
    write_deltalake(str(view), ROWS)


def put_the_view_of_another_job_there(view):
    shutil.rmtree(view)
    make(view, "other", "a")


def remove_a_data_file(view):
    next(view.rglob("*.parquet")).unlink()


def remove_the_log(view):
    shutil.rmtree(view / "_delta_log")


def test_a_view_as_the_last_epoch_left_it_or_newer_is_not_lost(view):
    assert lost(view) == ""
    DeltaTable(str(view)).optimize.compact()
    assert lost(view) == ""


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (shutil.rmtree, "the view of job paid_orders is gone from "),
        (empty, "the view of job paid_orders is gone from "),
        (remove_the_log, "holds files that are not the view of job paid_orders"),
        (put_another_table_there, "holds files that are not the view of job paid_orders"),
        (put_the_view_of_another_job_there, "is no longer the view of job paid_orders"),
        (remove_a_data_file, "1 of the data files of "),
    ],
)
def test_a_view_that_is_not_there_is_lost(view, harm, why):
    """I6: the control tables lie elsewhere, and would still say that the view is finished."""
    harm(view)
    assert why in lost(view)


def test_a_view_that_was_put_back_to_an_older_copy_is_lost(view):
    assert "ends with version 1, but an epoch wrote version 2" in lost(view, version=2)


def test_a_view_that_no_epoch_wrote_is_not_looked_for(lake):
    assert why_view_is_lost(settings_of(job_of(materialized_view=str(lake / "nothing"))), None) == ""
