"""What a query makes of rows: the seam of shapes, and its kinds."""

from typing import cast

from airflow_backfill_provider.core import kinds
from airflow_backfill_provider.core.job import BackfillJob
from airflow_backfill_provider.shapes.base import Shape, ShapedQuery
from airflow_backfill_provider.shapes.row import Row

KINDS = cast("kinds.Kinds[Shape]", kinds.SHAPES)
"""All shapes. The first one that takes a query is its shape."""

KINDS.register(Row())


def query_of(job: BackfillJob) -> ShapedQuery:
    """Return a job's query, read by its shape."""
    return KINDS.named(kinds.shape_of(job.query).name).query(job.query)


__all__ = ["KINDS", "Shape", "ShapedQuery", "query_of"]
