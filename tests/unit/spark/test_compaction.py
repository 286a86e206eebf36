"""A compaction that conflicts with faster writes."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_backfill_provider.core.errors import CompactionFailedError
from airflow_backfill_provider.core.status.compaction import CompactionPlan, CompactionStep
from airflow_backfill_provider.spark.compaction import compact
from airflow_backfill_provider.spark.stamped_table import VIEW_TABLE, StampedTable

CONFLICT = PySparkException("[DELTA_CONCURRENT_DELETE_READ.WITHOUT_HINT] Transaction conflict detected.")
BROKEN = PySparkException("[DIVIDE_BY_ZERO] Division by zero.")


class Session:
    """A session in which statements end as a test wants; records them with the settings at that time."""

    def __init__(self, outcomes: Sequence[PySparkException | None]) -> None:
        self.outcomes = list(outcomes)
        self.settings: dict[str, str] = {}
        self.ran: list[tuple[str, dict[str, str]]] = []
        self.conf = SimpleNamespace(set=self.settings.__setitem__, unset=self.settings.pop)

    def sql(self, statement: str) -> Any:
        self.ran.append((statement, dict(self.settings)))
        failure = self.outcomes.pop(0)
        if failure is not None:
            raise failure
        return SimpleNamespace(collect=list)


def plan(step: CompactionStep | None = CompactionStep.COMPACT) -> CompactionPlan:
    return CompactionPlan(files=8, saved_files=7, deleted_share=0.0, smaller_than=50, target_file_size=100, step=step)


def compacted(*outcomes: PySparkException | None, step: CompactionStep | None = CompactionStep.COMPACT) -> Session:
    session = Session(outcomes)
    try:
        compact(StampedTable(cast("SparkSession", session), "/lake/o`view", VIEW_TABLE), plan(step), "a1")
    finally:
        assert session.settings == {}, "settings are the session's, which an epoch may be in next"
    return session


def test_delta_gets_what_was_planned():
    ((statement, settings),) = compacted(None).ran
    assert statement == "OPTIMIZE delta.`/lake/o``view`"
    assert settings["spark.databricks.delta.optimize.minFileSize"] == "50"
    assert settings["spark.databricks.delta.optimize.maxFileSize"] == "100"
    assert settings["spark.databricks.delta.commitInfo.userMetadata"] == '{"event": "compact", "incarnation": "a1"}'


def test_deleted_rows_are_purged_by_another_statement():
    assert [statement for statement, _ in compacted(None, step=CompactionStep.PURGE).ran] == [
        "REORG TABLE delta.`/lake/o``view` APPLY (PURGE)"
    ]


def test_nothing_is_run_where_nothing_is_due():
    assert compacted(step=None).ran == []


def test_a_compaction_that_conflicts_is_retried():
    assert len(compacted(CONFLICT, CONFLICT, None).ran) == 3


def test_a_compaction_that_always_conflicts_is_a_retryable_error():
    with pytest.raises(CompactionFailedError, match="its rows are unchanged: .*conflict") as failure:
        compacted(CONFLICT, CONFLICT, CONFLICT)
    assert failure.value.retryable


def test_another_error_is_not_retried():
    with pytest.raises(CompactionFailedError, match="Division by zero"):
        compacted(BROKEN, None)
