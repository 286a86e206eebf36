"""The seam of shapes: what a query makes of rows, and the registered shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from airflow_backfill_provider.core import kinds
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.shapes.base import Shape
from airflow_backfill_provider.shapes.full import Full
from airflow_backfill_provider.shapes.group import Group
from airflow_backfill_provider.shapes.joined import Join
from airflow_backfill_provider.shapes.joined_groups import JoinedGroups
from airflow_backfill_provider.shapes.queries import ShapedQuery
from airflow_backfill_provider.shapes.row import Row
from airflow_backfill_provider.shapes.several import over_tables
from airflow_backfill_provider.shapes.united import Union

if TYPE_CHECKING:
    from airflow_backfill_provider.core.epoch.settings import JobSettings
    from airflow_backfill_provider.spark.row_units import RowUnits

KINDS = cast("kinds.Kinds[Shape]", kinds.SHAPES)
"""All shapes. A query has the first one that accepts it, of those that can refresh as the job asks."""

KINDS.register(Row())
KINDS.register(Group())
KINDS.register(JoinedGroups())
KINDS.register(Union())
KINDS.register(Join())
KINDS.register(Full())


def shape_of(job: BackfillJob) -> Shape:
    """Return the shape of a job's query."""
    return KINDS.named(kinds.shape_of_job(job).name)


def query_of(job: BackfillJob) -> ShapedQuery:
    """Return a job's query, parsed by its shape."""
    return shape_of(job).query(job.query)


def resolved_query_of(settings: JobSettings) -> ShapedQuery:
    """Return the query of a created job, resolved over its tables if there are several."""
    job = settings.definition
    return over_tables(query_of(job), job, settings.upstream)


def row_units_of(settings: JobSettings) -> RowUnits | None:
    """Return how the unit of each row of a job is found, if its strategy reads history unit by unit."""
    return cast("RowUnits | None", kinds.row_units(settings))


__all__ = ["KINDS", "Shape", "ShapedQuery", "query_of", "resolved_query_of", "row_units_of", "shape_of"]
