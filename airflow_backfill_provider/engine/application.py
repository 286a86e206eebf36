"""
What the Spark applications of ``spark_apps/`` do once their arguments are read.

The exit code tells a submitter what happened: 0 done, 1 failed and worth another try, 3 failed for good. The last line
on standard error says why.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from airflow_backfill_provider import creation, protocol
from airflow_backfill_provider.backfill import Backfill
from airflow_backfill_provider.core.application import DONE, FAILED, FAILED_FOR_GOOD, SAYS, SAYS_ERROR, SAYS_SPARK
from airflow_backfill_provider.core.barrier import EpochCommit
from airflow_backfill_provider.core.errors import BackfillError
from airflow_backfill_provider.core.job import BackfillJob
from airflow_backfill_provider.engine.session import prepare_session
from airflow_backfill_provider.engine.spark_engine import SparkEngine
from airflow_backfill_provider.spark_settings import storage_options_from_environment


def run_application(action: Callable[..., None], **arguments: Any) -> int:
    """
    Run an action in the session that ``spark-submit`` configured.

    :returns: the process's exit code.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s", stream=sys.stderr)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    _say(SAYS_SPARK, f"{spark.sparkContext.applicationId} {spark.sparkContext.uiWebUrl or ''}".strip())
    try:
        action(prepare_session(spark), storage_options_from_environment(), **arguments)
    except BackfillError as error:
        _say(SAYS_ERROR, str(error))
        return FAILED if error.retryable else FAILED_FOR_GOOD
    finally:
        spark.stop()
    return DONE


def run_epoch(spark: SparkSession, storage_options: dict[str, str], *, state: str, epoch: int) -> None:
    """
    Run one pinned epoch to its commit.

    :raises StateError: if no such epoch is pinned.
    """
    backfill = Backfill.at(state, storage_options)
    barrier = backfill.store.pinned(epoch)
    _log(protocol.run_barrier(barrier, store=backfill.store, engine=SparkEngine(spark, storage_options)))


def run_changes(spark: SparkSession, storage_options: dict[str, str], *, state: str, epoch: int) -> None:
    """
    Apply the changes of a pinned epoch that several applications share.

    :raises StateError: if no such epoch is pinned.
    """
    backfill = Backfill.at(state, storage_options)
    barrier = backfill.store.pinned(epoch)
    commit = protocol.run_changes(barrier, store=backfill.store, engine=SparkEngine(spark, storage_options))
    _say(SAYS, f"the changes of epoch {epoch} are applied")
    if commit is not None:
        _log(commit)


def run_part(spark: SparkSession, storage_options: dict[str, str], *, state: str, epoch: int, part: int) -> None:
    """
    Read one part of the chunk of a pinned epoch that several applications share.

    :raises StateError: if no such epoch is pinned, or it has no such part.
    """
    backfill = Backfill.at(state, storage_options)
    barrier = backfill.store.pinned(epoch)
    commit = protocol.run_part(barrier, part, store=backfill.store, engine=SparkEngine(spark, storage_options))
    _say(SAYS, f"part {part} of epoch {epoch} is read")
    if commit is not None:
        _log(commit)


def _log(commit: EpochCommit) -> None:
    end = ", every vnode completed" if commit.completed else ""
    _say(
        SAYS,
        f"epoch {commit.epoch} committed: {commit.snapshot_read_row_count} snapshot rows read, "
        f"{commit.upstream_output_row_count} changes applied, {commit.rows_read} rows read in all{end}",
    )


def create(
    spark: SparkSession, storage_options: dict[str, str], *, definition: dict[str, Any], requested_by: str
) -> None:
    """Create a job, or find it created."""
    backfill = Backfill(BackfillJob(**definition), storage_options)
    creation.create_job(
        backfill.job,
        store=backfill.store,
        upstream=backfill.upstream,
        engine=lambda: SparkEngine(spark, storage_options),
        requested_by=requested_by,
    )


def rebuild(
    spark: SparkSession, storage_options: dict[str, str], *, definition: dict[str, Any], requested_by: str
) -> None:
    """Start a job over."""
    backfill = Backfill(BackfillJob(**definition), storage_options)
    creation.rebuild_job(
        backfill.job,
        store=backfill.store,
        upstream=backfill.upstream,
        engine=lambda: SparkEngine(spark, storage_options),
        requested_by=requested_by,
    )


def _say(prefix: str, text: str) -> None:
    """Tell the submitter something; it knows the line by its prefix."""
    line = " ".join(text.splitlines())
    print(f"{prefix}{line}", file=sys.stderr, flush=True)  # noqa: T201 - read by the submitter
