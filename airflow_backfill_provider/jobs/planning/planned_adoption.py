"""What a plan says of an existing table that becomes the view; it is found without Spark."""

from __future__ import annotations

import datetime as dt

from pydantic import BaseModel, ConfigDict

from airflow_backfill_provider.core.clock import Clock, utc_now
from airflow_backfill_provider.core.job.succession import FirstRows
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.jobs.adoption import find_adopted, first_rows_of
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.look_back import look_back, require_followed
from airflow_backfill_provider.jobs.resolution import resolve_upstream


class PlannedAdoption(BaseModel):
    """
    A table that becomes the view.

    :param in_place: whether the table itself does; otherwise its files are copied.
    :param files: its data files.
    :param bytes: their size.
    :param as_of: the upstream's offset that it shows.
    :param offsets_after: how many offsets of the upstream the first epoch applies the changes of.
    :param compared_vnodes: how many vnodes are compared with the query before.
    :param written_by: what wrote to the table last.
    :param written_at: when.
    """

    model_config = ConfigDict(frozen=True)

    first_rows: FirstRows
    in_place: bool
    files: int
    bytes: int
    as_of: Offset
    offsets_after: int
    compared_vnodes: int
    written_by: str
    written_at: dt.datetime | None


def planned_adoption(backfill: Backfill, clock: Clock = utc_now) -> PlannedAdoption | None:
    """
    Return the table that creating a job would adopt; ``None`` if its view is computed.

    :raises BackfillError: if creating the job would refuse the table, as far as that can be known without Spark.
    """
    job, upstream, options = backfill.job, backfill.upstream, backfill.storage_options
    if job.backfill_from is None or job.as_of is None:
        return None
    seen = look_back(job, job.as_of, upstream, options, clock())
    created_on = resolve_upstream(job, seen.described, seen.others)
    at = seen.described.offset
    require_followed(job, created_on, at, upstream, options)
    table = find_adopted(job, job.backfill_from, options)
    return PlannedAdoption(
        first_rows=first_rows_of(job, table, upstream.point(at), created_on),
        in_place=job.adopts_in_place,
        files=table.files,
        bytes=table.size,
        as_of=at,
        offsets_after=upstream.latest().distance_from(at),
        compared_vnodes=job.backfill_from.sample or job.vnode_count,
        written_by=table.written_by,
        written_at=table.written_at,
    )
