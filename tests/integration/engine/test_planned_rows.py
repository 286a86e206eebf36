"""Plans without Spark count what Spark reads: vnodes, rows that are not hidden, changes of a window."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.scan.keys import KeyField
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.lake.files.key_index import arrow_type
from airflow_backfill_provider.lake.files.row_counts import RowCount
from airflow_backfill_provider.lake.files.vnode_hash import vnodes_of
from airflow_backfill_provider.sources.delta.source import DeltaSource
from airflow_backfill_provider.sources.delta.versions import offset_of
from tests.integration.engine.lakehouse import CHANGE_DATA_FEED, Lakehouse

pytestmark = pytest.mark.spark

HASHED = {
    "byte": "CAST(id % 256 - 128 AS TINYINT)",
    "short": "CAST(id * 97 % 65536 - 32768 AS SMALLINT)",
    "integer": "CAST(id * 7919 - 2147483648 AS INT)",
    "long": "id * 1000003 * 1000003 * IF(id % 2 = 0, 1, -1)",
    "boolean": "id % 3 = 0",
    "date": "date_add(DATE'0001-01-01', CAST(id * 7919 AS INT))",
    "timestamp": "timestamp_micros((id - 100) * 1000000007000003)",
    "timestamp_ntz": "CAST(timestamp_micros((id - 100) * 1000000007000003) AS TIMESTAMP_NTZ)",
    "string": "left(repeat(concat('aé𐍈', id), 5), CAST(id % 23 AS INT))",
    "binary": "unhex(left(sha2(string(id), 256), CAST(id % 29 * 2 AS INT)))",
    "decimal(9,2)": "CAST((id - 100) * 31.17 AS DECIMAL(9,2))",
    "decimal(18,4)": "CAST((id - 100) * 31415926535.1717 AS DECIMAL(18,4))",
    "decimal(38,10)": "CAST(CAST((id - 100) AS DECIMAL(38,10)) * 314159265358979323.0 AS DECIMAL(38,10))",
}
SPARK_TYPES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


def test_vnodes_of_every_type_of_key_are_those_that_spark_hashes(spark: SparkSession) -> None:
    columns = {f"c{number}": kind for number, kind in enumerate(HASHED)}
    rows = spark.range(300).select(
        *(
            F.expr(f"CAST(IF(id % 17 = {number % 17}, NULL, {HASHED[kind]}) AS {SPARK_TYPES.get(kind, kind)})").alias(
                name
            )
            for number, (name, kind) in enumerate(columns.items())
        )
    )
    together = ["c8", "c3", "c12"]
    hashed = rows.select(
        "*",
        *(F.pmod(F.hash(name), F.lit(1_000_003)).alias(f"v_{name}") for name in columns),
        F.pmod(F.hash(*together), F.lit(256)).alias("v_together"),
    ).toArrow()
    fields = {name: KeyField(name=name, type=kind) for name, kind in columns.items()}
    typed = pa.table({name: hashed.column(name).cast(arrow_type(field)) for name, field in fields.items()})
    for name, field in fields.items():
        expected = hashed.column(f"v_{name}").to_pylist()
        assert vnodes_of(typed, [field], 1_000_003).to_pylist() == expected, columns[name]
    several = vnodes_of(typed, [fields[name] for name in together], 256)
    assert several.to_pylist() == hashed.column("v_together").to_pylist()


@pytest.mark.exhaustive
def test_a_table_with_deletion_vectors_is_planned_by_the_rows_that_spark_reads(lakehouse: Lakehouse) -> None:
    """I4: also where a window hides rows that come next."""
    lakehouse.make_upstream("id BIGINT, region STRING", {**CHANGE_DATA_FEED, "delta.enableDeletionVectors": "true"})
    lakehouse.sql("INSERT INTO {upstream} SELECT /*+ COALESCE(1) */ id, concat('r', id % 3) FROM range(400)")
    lakehouse.sql("DELETE FROM {upstream} WHERE id % 10 <> 0 AND id < 200")
    lakehouse.create(strategy="arrangement", rate_limit=20, vnode_count=3)
    files = DeltaSource(lakehouse.upstream_path, lakehouse.storage_options).files_at(offset_of(2))
    assert (files.live_rows(), files.row_count()) == (RowCount(220), 400)

    assert lakehouse.epoch().snapshot_read_row_count == 20
    lakehouse.sql("DELETE FROM {upstream} WHERE id >= 200 AND id < 300")
    lakehouse.sql("UPDATE {upstream} SET region = 'new' WHERE id % 4 = 0")
    lakehouse.sql(
        "MERGE INTO {upstream} u USING (SELECT explode(sequence(390, 430)) AS n) s ON u.id = s.n "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, region) VALUES (s.n, 'merged')"
    )
    assert lakehouse.epoch().snapshot_read_row_count == 20
    mutations.throttle_job(100, store=lakehouse.backfill.store, requested_by="tester")
    lakehouse.finish()
    lakehouse.assert_equals_query("SELECT * FROM {upstream}")
