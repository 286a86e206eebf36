"""Opens both sides of a comparison of a view with its query."""

from __future__ import annotations

from functools import partial

from pyspark.sql import SparkSession

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.status.verification import PinnedVerification
from airflow_backfill_provider.engine.compared_sides import ComparedSides
from airflow_backfill_provider.engine.tables import TableOpener


def sides_of(
    spark: SparkSession, tables: TableOpener, settings: JobSettings, pinned: PinnedVerification, barrier: Barrier
) -> ComparedSides:
    """
    Return both sides of a comparison.

    :param settings: the settings whose query is compared.
    :param pinned: the versions.
    :param barrier: the barrier of the compared epoch.
    """
    job = settings.definition
    upstream = tables.upstream(job).as_created(settings.upstream)
    return ComparedSides(
        spark=spark,
        settings=settings,
        pinned=pinned,
        location=job.view_location,
        table=partial(tables.table_rows, job.view_location, pinned.view_version),
        older=[read for read in barrier.view_after if read.offset != pinned.upstream_version],
        upstream=upstream,
        reader=tables.reader(job, upstream),
        placed=tables.placed(settings, upstream),
        others={name: other.rows.reader for name, other in tables.others(job, settings.upstream).items()},
        further={name: lead.rows for name, lead in tables.further(settings, upstream).items()},
    )
