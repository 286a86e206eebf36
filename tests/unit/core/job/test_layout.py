"""The layout of a view in its job's definition."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.layout import column_named, require_clustering, require_partitions
from tests.builders import job_of

TYPES = {
    "id": "long",
    "Day": "date",
    "region": "string",
    "price": "decimal(20,2)",
    "weight": "double",
    "paid": "boolean",
    "at": "timestamp",
    "raw": "binary",
    "tags": '{"elementType": "string", "type": "array"}',
}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"partition_by": ["a"], "cluster_by": ["b"]}, "leave one of them out"),
        ({"partition_by": ["a", "b", "A"]}, "partition_by: names a more than once"),
        ({"cluster_by": ["a", "A"]}, "cluster_by: names a more than once"),
        ({"partition_by": [""]}, "partition_by: a column has no name"),
        ({"partition_by": "day"}, "partition_by"),
        ({"cluster_by": ["a", "b", "c", "d", "e"]}, "cluster_by: 5 columns; Delta clusters by at most 4"),
        ({"target_file_size": "big"}, "target_file_size: must be a number of bytes from 1, or a size such as 256mb"),
        ({"target_file_size": 0}, "target_file_size: must be a number of bytes"),
        ({"target_file_size": True}, "target_file_size: must be a number of bytes"),
        ({"row_tracking": "yes"}, "row_tracking"),
    ],
)
def test_a_contradicting_layout_is_refused_by_its_field(fields, said):
    with pytest.raises(InvalidJobError, match=said):
        job_of(**fields)


def test_a_job_without_a_layout_has_the_definition_that_it_always_had():
    """Otherwise a job that was created by an older version would count as changed."""
    layout = {"partition_by", "cluster_by", "target_file_size", "row_tracking"}
    assert layout.isdisjoint(job_of().definition())


def test_another_layout_is_another_definition():
    job = job_of(partition_by=["day"], target_file_size="64mb", row_tracking=True)
    assert {
        "partition_by": ["day"],
        "target_file_size": 2**26,
        "row_tracking": True,
    }.items() <= job.definition().items()
    assert type(job)(**job.fields) == job


def test_a_layout_becomes_table_properties():
    job = job_of(target_file_size="1mb", row_tracking=True)
    assert job.layout_properties == {"delta.targetFileSize": "1048576", "delta.enableRowTracking": "true"}
    assert job_of().layout_properties == {}


def test_a_column_may_be_named_in_another_case():
    assert column_named("DAY", list(TYPES), "partition_by") == "Day"
    with pytest.raises(InvalidJobError, match="cluster_by: the view has no column month; its columns are id, Day"):
        column_named("month", list(TYPES), "cluster_by")


@pytest.mark.parametrize("name", ["id", "day", "region", "price", "paid"])
def test_a_view_is_partitioned_by_columns_whose_values_have_an_exact_text(name):
    require_partitions([name], TYPES)


@pytest.mark.parametrize("name", ["weight", "at", "raw", "tags"])
def test_a_view_is_not_partitioned_by_other_columns(name):
    with pytest.raises(InvalidJobError, match=f"partition_by: column {name} has type"):
        require_partitions(["day", name], TYPES)


def test_a_view_is_not_partitioned_by_all_of_its_columns():
    with pytest.raises(InvalidJobError, match="names all columns"):
        require_partitions(["region", "id"], {"id": "long", "region": "string"})


@pytest.mark.parametrize("name", ["id", "day", "region", "price", "weight", "at"])
def test_a_view_is_clustered_by_columns_with_bounds(name):
    require_clustering([name], TYPES, {})


@pytest.mark.parametrize("name", ["paid", "raw", "tags"])
def test_a_view_is_not_clustered_by_columns_without_bounds(name):
    with pytest.raises(InvalidJobError, match=f"cluster_by: column {name} has type"):
        require_clustering([name], TYPES, {})


@pytest.mark.parametrize(
    ("properties", "has_some"),
    [
        ({}, True),
        ({"delta.dataSkippingNumIndexedCols": "2"}, False),
        ({"delta.dataSkippingNumIndexedCols": "3"}, True),
        ({"delta.dataSkippingNumIndexedCols": "-1"}, True),
        ({"delta.dataSkippingNumIndexedCols": "many"}, True),
        ({"delta.dataSkippingStatsColumns": "id, `Region`"}, True),
        ({"delta.dataSkippingStatsColumns": "id"}, False),
    ],
)
def test_a_clustering_column_needs_statistics(properties, has_some):
    if has_some:
        require_clustering(["region"], TYPES, properties)
        return
    with pytest.raises(InvalidJobError, match="files have no statistics of column region"):
        require_clustering(["region"], TYPES, properties)


def test_a_column_behind_the_first_ones_has_no_statistics():
    many = {f"c{number}": "long" for number in range(33)}
    require_clustering(["c31"], many, {})
    with pytest.raises(InvalidJobError, match="column c32"):
        require_clustering(["c32"], many, {})
