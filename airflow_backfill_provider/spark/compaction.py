"""
Compacts the files of a table with Delta's commands, while epochs may write to it.

If a compaction and another write change the same files, the later one fails. An epoch tries again
(:mod:`~airflow_backfill_provider.spark.stamped_table`), and so does a compaction, a few times.
"""

from __future__ import annotations

import logging

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from tenacity import Retrying, retry_if_exception, stop_after_attempt

from airflow_backfill_provider.core.errors import CompactionFailedError
from airflow_backfill_provider.core.status.compaction import MOST_DELETED_OF_FILE, CompactionPlan, CompactionStep
from airflow_backfill_provider.spark.session import session_settings
from airflow_backfill_provider.spark.spark_errors import is_conflict
from airflow_backfill_provider.spark.spark_messages import first_line
from airflow_backfill_provider.spark.stamped_table import StampedTable

ATTEMPTS = 3

_STATEMENTS = {CompactionStep.COMPACT: "OPTIMIZE {}", CompactionStep.PURGE: "REORG TABLE {} APPLY (PURGE)"}

logger = logging.getLogger(__name__)


def compact(table: StampedTable, plan: CompactionPlan, incarnation: str) -> None:
    """
    Run a planned compaction, in one commit that changes no row.

    :param incarnation: the job's incarnation, for the commit.
    :raises CompactionFailedError: if every attempt lost to another write, or Spark failed; the table is unchanged.
    """
    if plan.step is None:
        return
    settings = {
        "spark.databricks.delta.optimize.minFileSize": str(plan.smaller_than),
        "spark.databricks.delta.optimize.maxFileSize": str(plan.target_file_size),
        "spark.databricks.delta.optimize.maxDeletedRowsRatio": str(MOST_DELETED_OF_FILE),
    }
    statement = _STATEMENTS[plan.step].format(table.sql_name)
    with session_settings(table.spark, settings), table.committing({"event": "compact", "incarnation": incarnation}):
        try:
            _retrying(table.path)(lambda: table.spark.sql(statement).collect())
        except (PySparkException, Py4JError) as error:
            # A compaction copies rows unchanged, so its errors quote none.
            raise CompactionFailedError(
                f"{table.path} was not compacted, and its rows are unchanged: {first_line(error)}; try again, "
                "preferably while no epoch runs"
            ) from None


def _retrying(path: str) -> Retrying:
    return Retrying(
        retry=retry_if_exception(is_conflict),
        stop=stop_after_attempt(ATTEMPTS),
        before_sleep=lambda _: logger.info("the compaction of %s conflicted with another write; trying again", path),
        reraise=True,
    )
