"""The dry run warns of layouts under which merges are expensive."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.jobs.planning.layout_warnings import layout_warnings
from tests.builders import job_of

AVAILABLE = ["id", "amount", "status", "day"]


def warnings(rows=1_000_000, **fields):
    fields = {"query": "SELECT id, id % 8 AS bucket, day, amount FROM upstream", **fields}
    return list(layout_warnings(job_of(**fields), AVAILABLE, rows))


def test_a_layout_that_the_key_decides_is_no_problem():
    assert warnings() == warnings(partition_by=["bucket"]) == warnings(cluster_by=["day", "id"]) == []


def test_a_row_that_can_move_between_partitions_is_worth_a_warning():
    [warning] = warnings(partition_by=["bucket", "day"])
    assert "another value of day, so each merge looks for changed rows in all partitions" in warning


def test_a_partition_for_each_key_is_worth_a_warning():
    [warning] = warnings(partition_by=["id"])
    assert "id is the key, so there is a partition for each of 1,000,000 rows" in warning
    assert warnings(rows=100, partition_by=["id"]) == []


def test_clustering_without_the_key_is_worth_a_warning():
    [warning] = warnings(cluster_by=["day"])
    assert "day tells nothing of the key" in warning


@pytest.mark.parametrize(("column", "number"), [("day", 0), ("total", 1)])
def test_the_unit_of_a_view_of_groups_decides(column, number):
    query = "SELECT day, status, sum(amount) AS total FROM upstream GROUP BY day, status"
    assert len(warnings(query=query, partition_by=[column])) == number
