"""The writer of each technique that keeps a view of groups."""

from __future__ import annotations

from airflow_backfill_provider.shapes.base import ViewWriter
from airflow_backfill_provider.shapes.group.added_rows_writer import AddedRowsWriter
from airflow_backfill_provider.shapes.group.fold_writer import FoldWriter
from airflow_backfill_provider.shapes.group.grouped_rows import GroupInput
from airflow_backfill_provider.shapes.group.grouping_query import Technique
from airflow_backfill_provider.shapes.group.writer import SliceWriter


def writer_of(rows: GroupInput) -> ViewWriter:
    """
    Return the writer of the technique that the job's settings pin, or of an upstream's rows that are only appended.

    :param rows: gives the rows that the query groups.
    """
    if rows.context.job_rows.reader.appends_only:
        return AddedRowsWriter(rows)
    return FoldWriter(rows) if rows.query.technique is Technique.FOLD else SliceWriter(rows)
