"""The clauses that lay out a view's table, and layouts that it cannot have."""

from __future__ import annotations

import json

import pytest
from pyspark.sql.types import DateType, LongType, StructField, StructType

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.spark.view_layout import PLAIN, require_layout, table_clauses
from tests.builders import job_of
from tests.deletion_vectors import write_actions

ID = {"name": "id", "type": "long", "nullable": True, "metadata": {}}
SCHEMA = StructType([StructField("id", LongType()), StructField("Day", DateType())])


@pytest.mark.parametrize(
    ("layout", "clauses"),
    [
        ({}, "USING delta TBLPROPERTIES ('a' = 'b')"),
        ({"partition_by": ["day"]}, "USING delta PARTITIONED BY (`Day`) TBLPROPERTIES ('a' = 'b')"),
        ({"cluster_by": ["DAY", "id"]}, "USING delta CLUSTER BY (`Day`, `id`) TBLPROPERTIES ('a' = 'b')"),
        (
            {"target_file_size": 5, "row_tracking": True},
            "USING delta TBLPROPERTIES ('a' = 'b', 'delta.targetFileSize' = '5', 'delta.enableRowTracking' = 'true')",
        ),
    ],
)
def test_a_layout_becomes_clauses_of_the_creation(layout, clauses):
    assert table_clauses(job_of(**layout), SCHEMA.names, {"a": "b"}) == clauses


def test_a_table_without_a_layout_has_none():
    assert table_clauses(PLAIN, SCHEMA.names, {"a": "o'b"}) == r"USING delta TBLPROPERTIES ('a' = 'o\'b')"


def clustered(path):
    (path / "_delta_log").mkdir(parents=True)
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["clustering", "domainMetadata"]}
    metadata = {
        "id": "3b2c9d8e-0000-4000-8000-000000000000",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": [ID]}),
        "partitionColumns": [],
        "configuration": {},
    }
    write_actions(path, 0, {"protocol": protocol}, {"metaData": metadata})


def test_no_partitioned_table_takes_the_place_of_a_clustered_one(tmp_path):
    clustered(tmp_path / "paid_orders")
    require_layout(job_of(tmp_path, cluster_by=["id"]), SCHEMA, exists=True)
    require_layout(job_of(tmp_path, partition_by=["day"]), SCHEMA, exists=False)
    with pytest.raises(InvalidJobError, match="create another job with another materialized_view"):
        require_layout(job_of(tmp_path, partition_by=["day"]), SCHEMA, exists=True)


def test_a_column_that_the_view_does_not_have_is_refused():
    with pytest.raises(InvalidJobError, match="partition_by: the view has no column month"):
        require_layout(job_of(partition_by=["month"]), SCHEMA, exists=False)
