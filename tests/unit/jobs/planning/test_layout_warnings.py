"""The dry run warns of layouts under which merges are expensive."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.jobs.planning.layout_warnings import layout_warnings
from airflow_backfill_provider.shapes import query_of
from airflow_backfill_provider.shapes.several import QueryOverSeveral, QueryTable
from tests.builders import job_of
from tests.several import star

AVAILABLE = ["id", "amount", "status", "day"]


def warnings(rows=1_000_000, **fields):
    fields = {"query": "SELECT id, id % 8 AS bucket, day, amount FROM upstream", **fields}
    job = job_of(**fields)
    return list(layout_warnings(job, query_of(job), AVAILABLE, rows))


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


@pytest.mark.parametrize(
    ("query", "number"),
    [
        ("SELECT l.id, l.id % 8 AS part, d.name FROM orders AS l JOIN customers AS d ON d.id = l.customer", 0),
        ("SELECT l.id, l.amount AS part FROM orders AS l JOIN customers AS d ON d.id = l.customer", 1),
        ("SELECT id % 8 AS part FROM orders UNION ALL SELECT id FROM customers", 0),
        ("SELECT id % 8 AS part FROM orders UNION ALL SELECT length(name) FROM customers", 1),
        (
            "SELECT d.name AS part, count(*) AS n FROM orders AS l JOIN customers AS d ON d.id = l.customer GROUP BY 1",
            0,
        ),
        ("SELECT customer AS part FROM orders UNION SELECT id FROM customers", 0),
    ],
)
def test_the_keys_of_leads_and_the_units_of_groups_decide_over_several_upstreams(query, number):
    job = BackfillJob(**star(query=query, partition_by=["part"]))
    asked = query_of(job)
    assert isinstance(asked, QueryOverSeveral)
    tables = {
        "orders": QueryTable(key=("id",), types={"id": "long", "customer": "long", "amount": "integer"}),
        "customers": QueryTable(key=("id",), types={"id": "long", "name": "string"}),
    }
    assert len(list(layout_warnings(job, asked.resolved(tables), AVAILABLE, 100))) == number
