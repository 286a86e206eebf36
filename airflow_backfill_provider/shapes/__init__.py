"""The seam of shapes: what a query makes of rows, and the registered shapes."""

from typing import cast

from airflow_backfill_provider.core import kinds
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.shapes.base import Shape
from airflow_backfill_provider.shapes.full import Full
from airflow_backfill_provider.shapes.group import Group
from airflow_backfill_provider.shapes.queries import ShapedQuery
from airflow_backfill_provider.shapes.row import Row

KINDS = cast("kinds.Kinds[Shape]", kinds.SHAPES)
"""All shapes. A query has the first one that accepts it, of those that can refresh as the job asks."""

KINDS.register(Row())
KINDS.register(Group())
KINDS.register(Full())


def shape_of(job: BackfillJob) -> Shape:
    """Return the shape of a job's query."""
    return KINDS.named(kinds.shape_of(job.query, job.refresh).name)


def query_of(job: BackfillJob) -> ShapedQuery:
    """Return a job's query, parsed by its shape."""
    return shape_of(job).query(job.query)


__all__ = ["KINDS", "Shape", "ShapedQuery", "query_of", "shape_of"]
