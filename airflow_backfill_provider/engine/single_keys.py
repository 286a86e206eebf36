"""
Keys that must identify a row.

An epoch that applies changes looks for a second row among the keys that changed. One that computes the whole view reads
no changes, so it looks among all keys of the upstreams that have any.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.window import UpstreamWindow
from airflow_backfill_provider.engine.tables import JobTables
from airflow_backfill_provider.shapes import KINDS as SHAPES
from airflow_backfill_provider.shapes import resolved_query_of
from airflow_backfill_provider.shapes.several import QueryOverSeveral
from airflow_backfill_provider.spark.job_rows import JobRows


def require_single_key(rows: JobRows, found: DataFrame, *, expected: int) -> None:
    """
    Refuse rows of an upstream of which several have one key.

    :param expected: their estimated number.
    :raises DuplicateKeyError: if any have.
    """
    if not rows.reader.keys_are_unique:
        rows.measure_chunk(found, expected=expected)


def require_single_key_at_end(rows: JobRows, window: UpstreamWindow) -> None:
    """
    Refuse an upstream of which several rows have one key as of the end of a window.

    :raises DuplicateKeyError: if any have.
    """
    if not rows.reader.keys_are_unique:
        rows.measure(window.to_offset, expected=window.row_count)


def require_single_keys(tables: JobTables, barrier: Barrier) -> None:
    """
    Refuse keys that are there several times as of the ends of the windows, of the upstreams that have changes.

    :raises DuplicateKeyError: with the upstream.
    """
    query, changed = resolved_query_of(tables.settings), barrier.changed_others
    if not isinstance(query, QueryOverSeveral):
        if SHAPES.named(tables.settings.shape).has_keys and barrier.lead_has_changes:
            require_single_key_at_end(tables.lead_rows, barrier.upstream)
        return
    relied_on = {name: other.rows for name, other in tables.others.items() if name in query.keyed and name in changed}
    if tables.writer.replaces_leads:
        relied_on |= {name: lead.rows for name, lead in tables.further.items() if name in changed}
        if barrier.lead_has_changes:
            relied_on[tables.settings.definition.lead_name] = tables.lead_rows
    for name, rows in relied_on.items():
        require_single_key_at_end(rows, barrier.window(name))
