"""Views that are laid out by partitions or clustering from their creation on, on real Spark."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError, MaterializedViewError
from airflow_backfill_provider.core.status.compaction import CompactionPolicy
from airflow_backfill_provider.jobs.maintenance.compaction import compact_job
from tests.integration.engine.lakehouse import Lakehouse

pytestmark = pytest.mark.spark

COLUMNS = "id BIGINT, name STRING, price DECIMAL(10, 2), n INT"
ROWS = (
    "INSERT INTO {upstream} SELECT id, concat('n', id % 3), CAST(id AS DECIMAL(10, 2)), CAST(id % 5 AS INT) "
    "FROM range(60)"
)
CHANGES = (
    "UPDATE {upstream} SET name = 'moved', n = n + 1 WHERE id % 7 = 1",
    "DELETE FROM {upstream} WHERE id % 11 = 2",
    "UPDATE {upstream} SET id = id + 1000 WHERE id % 13 = 3",
    "INSERT INTO {upstream} VALUES (5000, null, 1.0, null)",
)
OF_ROWS = "SELECT id, id % 4 AS bucket, name, price FROM upstream WHERE n <> 3 OR n IS NULL"
OF_GROUPS = "SELECT name, n, count(*) AS number, sum(price) AS total FROM upstream GROUP BY name, n"
SLICED = "SELECT name, n, count(DISTINCT price) AS number FROM upstream GROUP BY name, n"


def detail(lakehouse: Lakehouse) -> Any:
    return lakehouse.sql("DESCRIBE DETAIL {view}").collect()[0]


def merged_by(lakehouse: Lakehouse) -> list[str]:
    """Return the conditions of the merges into the view."""
    history = lakehouse.sql("DESCRIBE HISTORY {view}").collect()
    return [row.operationParameters["predicate"] for row in history if row.operation == "MERGE"]


def lived_through(lakehouse: Lakehouse, **fields: Any) -> None:
    """Create a job, and hold I1 through changes that come while history is read and afterwards."""
    lakehouse.make_upstream(COLUMNS)
    lakehouse.sql(ROWS)
    lakehouse.create(**fields)
    lakehouse.epoch()
    for change in CHANGES[:2]:
        lakehouse.sql(change)
    lakehouse.epoch()
    for change in CHANGES[2:]:
        lakehouse.sql(change)
    lakehouse.finish()
    lakehouse.assert_truth()


@pytest.mark.exhaustive
@pytest.mark.parametrize("visibility", ["every_epoch", "on_finish"])
def test_a_merge_names_the_partitions_that_the_key_decides_and_no_others(lakehouse: Lakehouse, visibility: str) -> None:
    """I1: a row that moves to another value of ``name`` is found where it was."""
    lived_through(
        lakehouse,
        query=OF_ROWS,
        partition_by=["Bucket", "name"],
        rate_limit=40,
        visibility=visibility,
        strategy="no_shuffle",
    )
    assert detail(lakehouse).partitionColumns == ["bucket", "name"]
    assert all("bucket" in condition.lower() and "name" not in condition for condition in merged_by(lakehouse))
    assert lakehouse.view().filter("name = 'moved'").count()


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("query", "layout"),
    [
        (OF_ROWS, {"cluster_by": ["name", "id"]}),
        (OF_ROWS, {"row_tracking": True, "target_file_size": "1mb"}),
        (OF_ROWS, {"partition_by": ["name"], "table_properties": {"delta.enableDeletionVectors": "true"}}),
        (OF_ROWS, {"partition_by": ["price"]}),
        (OF_GROUPS, {"partition_by": ["name"]}),
        (OF_GROUPS, {"partition_by": ["number"]}),
        (OF_GROUPS, {"cluster_by": ["total"]}),
        (SLICED, {"partition_by": ["number", "name"]}),
        (SLICED, {"cluster_by": ["name"], "table_properties": {"delta.enableDeletionVectors": "true"}}),
        ("SELECT id, n FROM upstream WHERE n > 1 UNION ALL SELECT id, 7 FROM upstream", {"partition_by": ["n"]}),
    ],
)
def test_a_view_with_a_layout_is_its_query(lakehouse: Lakehouse, query: str, layout: dict[str, Any]) -> None:
    """I1, for each shape; the layout is there from the first version on."""
    lived_through(lakehouse, query=query, **layout)
    found = detail(lakehouse)
    assert found.partitionColumns == layout.get("partition_by", [])
    assert found.clusteringColumns == layout.get("cluster_by", [])
    assert ("delta.enableRowTracking" in found.properties) == layout.get("row_tracking", False)


@pytest.mark.exhaustive
def test_a_compaction_keeps_to_the_partitions(lakehouse: Lakehouse) -> None:
    lived_through(lakehouse, query=OF_ROWS, partition_by=["bucket"], rate_limit=20)
    before = detail(lakehouse).numFiles
    compact_job(lakehouse.backfill, engine=lambda: lakehouse.engine, policy=CompactionPolicy(at=1))
    assert detail(lakehouse).numFiles < before
    assert detail(lakehouse).partitionColumns == ["bucket"]
    lakehouse.assert_truth()


@pytest.mark.exhaustive
def test_an_empty_text_is_refused_in_a_partition_column(lakehouse: Lakehouse) -> None:
    """I6: Delta would store null, in a chunk and in a merge alike."""
    lakehouse.make_upstream(COLUMNS)
    lakehouse.sql(ROWS)
    lakehouse.create(query="SELECT id, name FROM upstream", partition_by=["name"])
    lakehouse.finish()
    lakehouse.sql("UPDATE {upstream} SET name = '' WHERE id = 3")
    with pytest.raises(MaterializedViewError, match="an empty text in a column of partition_by"):
        lakehouse.epoch()
    lakehouse.rebuild(query="SELECT id, name FROM upstream", partition_by=["name"])
    with pytest.raises(MaterializedViewError, match="an empty text in a column of partition_by"):
        lakehouse.epoch()
    lakehouse.rebuild(query="SELECT id, nullif(name, '') AS name FROM upstream", partition_by=["name"])
    lakehouse.finish()
    lakehouse.assert_truth()


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"partition_by": ["nothing"]}, "partition_by: the view has no column nothing"),
        ({"cluster_by": ["n"]}, "cluster_by: the view has no column n"),
        ({"partition_by": ["id", "bucket", "name", "price"]}, "names all columns"),
        ({"query": "SELECT id, CAST(price AS DOUBLE) AS p FROM upstream", "partition_by": ["p"]}, "has type double"),
        ({"query": "SELECT id, n > 1 AS p FROM upstream", "cluster_by": ["p"]}, "has type boolean"),
    ],
)
def test_a_layout_that_the_view_cannot_have_is_refused_before_anything_is_written(
    lakehouse: Lakehouse, fields: dict[str, Any], said: str
) -> None:
    lakehouse.make_upstream(COLUMNS)
    with pytest.raises(InvalidJobError, match=said):
        lakehouse.create(**{"query": OF_ROWS, **fields})
    assert not lakehouse.backfill.store.created()


@pytest.mark.exhaustive
def test_a_layout_changes_with_a_rebuild_but_never_from_clustering_to_partitions(lakehouse: Lakehouse) -> None:
    lakehouse.make_upstream(COLUMNS)
    lakehouse.sql(ROWS)
    lakehouse.create(query=OF_ROWS, partition_by=["name"])
    with pytest.raises(InvalidJobError, match="with another partition_by; rebuild the job"):
        lakehouse.create(query=OF_ROWS, partition_by=["bucket"])
    lakehouse.rebuild(query=OF_ROWS, partition_by=["bucket"])
    assert detail(lakehouse).partitionColumns == ["bucket"]
    lakehouse.rebuild(query=OF_ROWS, cluster_by=["id"])
    assert detail(lakehouse).clusteringColumns == ["id"]
    with pytest.raises(InvalidJobError, match="create another job with another materialized_view"):
        lakehouse.rebuild(query=OF_ROWS, partition_by=["bucket"])
    lakehouse.rebuild(query=OF_ROWS)
    lakehouse.finish()
    lakehouse.assert_truth()


@pytest.mark.exhaustive
def test_appends_to_a_clustered_view_are_committed_by_this_package(lakehouse: Lakehouse) -> None:
    """They stay fast; every tenth version is Delta's own, which then writes a checkpoint with the clustering."""
    lakehouse.make_upstream(COLUMNS)
    lakehouse.sql(ROWS)
    lakehouse.create(query=OF_ROWS, cluster_by=["id"], rate_limit=4, strategy="no_shuffle")
    lakehouse.finish()
    lakehouse.assert_truth()
    assert detail(lakehouse).clusteringColumns == ["id"]
    log = lakehouse.on_disk(lakehouse.view_path) / "_delta_log"
    engines = {
        file.stem: json.loads(file.read_text().split("\n", 1)[0])["commitInfo"]["engineInfo"]
        for file in log.glob("*.json")
    }
    ours = [version for version, engine in engines.items() if engine == "airflow-backfill-provider"]
    assert len(ours) > len(engines) // 2
    assert [*log.glob("*10.checkpoint*")]
