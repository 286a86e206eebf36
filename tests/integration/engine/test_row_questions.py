"""Why a view has a row, or has not, on views that real epochs have written."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_backfill_provider.core.errors import RowNotTraceableError
from airflow_backfill_provider.core.status.compaction import CompactionPolicy
from airflow_backfill_provider.core.status.row_answer import Reason, RowAnswer
from airflow_backfill_provider.jobs.maintenance.compaction import compact_job
from airflow_backfill_provider.jobs.row_questions import why
from airflow_backfill_provider.lake.tables import row_trace
from tests.integration.engine.lakehouse import Lakehouse

pytestmark = pytest.mark.spark

QUERY = "SELECT id, name FROM upstream WHERE n <> 3 AND length(name) < 4"


def asked(lakehouse: Lakehouse, key: object) -> RowAnswer:
    return why(lakehouse.backfill, key)


def begin(lakehouse: Lakehouse, **fields: Any) -> None:
    lakehouse.make_upstream("id BIGINT, name STRING, n INT")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, 'a', CAST(id % 5 AS INT) FROM range(30)")
    lakehouse.create(**{"query": QUERY, "strategy": "no_shuffle", "rate_limit": 20, **fields})


@pytest.mark.exhaustive
@pytest.mark.parametrize("layout", [{}, {"row_tracking": True}, {"partition_by": ["name"]}])
def test_the_logs_and_a_few_files_answer(lakehouse: Lakehouse, layout: dict[str, Any]) -> None:
    """An update rewrites the files of all rows, and still only the changed row counts as changed."""
    begin(lakehouse, **layout)
    assert asked(lakehouse, 0).reason is Reason.NOT_READ
    lakehouse.epoch()
    assert (asked(lakehouse, 25).reason, asked(lakehouse, 25).vnode) == (Reason.NOT_READ, 0) or layout
    lakehouse.sql("UPDATE {upstream} SET name = 'b' WHERE id = 1")
    lakehouse.sql("DELETE FROM {upstream} WHERE id = 2")
    lakehouse.sql("UPDATE {upstream} SET name = 'long' WHERE id = 5")
    lakehouse.finish()

    read, changed, gone = asked(lakehouse, 0), asked(lakehouse, 1), asked(lakehouse, 2)
    assert (read.reason, read.epoch, read.present, read.epoch_by) == (Reason.CHUNK, 1, True, "tester")
    assert read.view is not None
    assert read.view.is_certain
    assert read.upstream is not None
    assert (read.upstream.version, read.upstream.is_certain) == (1, True)
    assert (changed.reason, changed.epoch) == (Reason.CHANGE, 2)
    assert changed.upstream is not None
    assert (changed.upstream.version, changed.upstream.operation) == (2, "UPDATE")
    assert (gone.reason, gone.present) == (Reason.DELETED, False)
    assert gone.upstream is not None
    assert (gone.upstream.version, gone.upstream.operation) == (3, "DELETE")
    assert (asked(lakehouse, 8).reason, asked(lakehouse, 8).conditions) == (Reason.FILTERED, ("n <> 3",))
    assert asked(lakehouse, 500).reason is Reason.NOT_THERE

    with pytest.raises(RowNotTraceableError, match=r"only Spark can check length\(name\) < 4"):
        asked(lakehouse, 5)
    by_spark = why(lakehouse.backfill, 5, finder=lakehouse.engine.row_finder)
    assert (by_spark.reason, by_spark.conditions) == (Reason.FILTERED, ("length(name) < 4",))
    lakehouse.sql("INSERT INTO {upstream} VALUES (31, 'a', 1)")
    assert asked(lakehouse, 31).reason is Reason.NOT_YET


@pytest.mark.exhaustive
@pytest.mark.parametrize("fields", [{"strategy": "arrangement"}, {"strategy": "snapshot", "rate_limit": None}])
def test_under_other_strategies(lakehouse: Lakehouse, fields: dict[str, Any]) -> None:
    begin(lakehouse, **fields)
    lakehouse.epoch()
    lakehouse.sql("UPDATE {upstream} SET name = 'b' WHERE id = 1")
    lakehouse.finish()
    lakehouse.sql("UPDATE {upstream} SET name = 'c' WHERE id = 1")
    lakehouse.finish()
    assert asked(lakehouse, 0).reason is Reason.CHUNK
    changed = asked(lakehouse, 1)
    assert changed.reason is Reason.CHANGE
    assert changed.upstream is not None
    assert changed.upstream.version == 3


@pytest.mark.exhaustive
@pytest.mark.parametrize("properties", [{}, {"delta.enableDeletionVectors": "true"}])
def test_a_compaction_hides_nothing_and_spark_finds_the_same(
    lakehouse: Lakehouse, properties: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(lakehouse, table_properties=properties)
    lakehouse.finish()
    lakehouse.sql("UPDATE {upstream} SET name = 'b' WHERE id = 1")
    lakehouse.finish()
    compact_job(lakehouse.backfill, engine=lambda: lakehouse.engine, policy=CompactionPolicy(at=1))
    assert (asked(lakehouse, 0).reason, asked(lakehouse, 0).epoch) == (Reason.CHUNK, 1)
    assert asked(lakehouse, 1).reason is Reason.CHANGE
    monkeypatch.setattr(row_trace, "MOST_ROWS", 3)
    with pytest.raises(RowNotTraceableError, match="the key may be in each"):
        asked(lakehouse, 0)
    assert why(lakehouse.backfill, 0, finder=lakehouse.engine.row_finder).reason is Reason.CHUNK


@pytest.mark.exhaustive
@pytest.mark.parametrize("aggregate", ["count(*)", "count(DISTINCT name)"])
def test_of_a_group_the_commit_that_changed_it_last_is_known(lakehouse: Lakehouse, aggregate: str) -> None:
    begin(lakehouse, query=f"SELECT n, {aggregate} AS c FROM upstream GROUP BY n", strategy="auto", rate_limit=None)
    lakehouse.finish()
    lakehouse.sql("INSERT INTO {upstream} VALUES (100, 'z', 1)")
    lakehouse.sql("DELETE FROM {upstream} WHERE n = 4")
    lakehouse.finish()
    changed, gone = asked(lakehouse, 1), asked(lakehouse, 4)
    assert changed.reason is Reason.CHANGE
    assert changed.upstream is not None
    assert changed.upstream.version == 2
    assert asked(lakehouse, 0).reason is Reason.CHUNK
    assert (gone.reason, gone.upstream and gone.upstream.version) == (Reason.DELETED, 3)
    assert asked(lakehouse, 77).reason is Reason.NOT_THERE
