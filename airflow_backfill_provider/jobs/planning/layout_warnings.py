"""Warns of a layout under which merges into the view are expensive, before a job with it is created."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from airflow_backfill_provider.core import text
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.keep import IS_CURRENT
from airflow_backfill_provider.shapes import ShapedQuery

_MANY = 10_000
"""From so many partitions on, reading the log of a table takes longer than reading its rows."""


def layout_warnings(job: BackfillJob, query: ShapedQuery, available: Sequence[str], rows: int) -> Iterator[str]:
    """
    Yield what the job's layout costs, and what to do about it.

    :param query: the job's query, resolved over its tables if there are several.
    :param available: the upstream's columns.
    :param rows: the upstream's rows.
    """
    if not (job.partition_by or job.cluster_by):
        return
    key = [named.column for named in job.upstream.key]
    wanted = job.partition_by or job.cluster_by
    # An epoch knows of the rows that it looks for that they have not ended.
    decided = {*query.decided_by_unit(wanted, key, available), *(name for name in wanted if name.lower() == IS_CURRENT)}
    if moving := [name for name in job.partition_by if name not in decided]:
        yield (
            f"partition_by: a row may move to another value of {', '.join(moving)}, so each merge looks for changed "
            "rows in all partitions; partition by a column of the key, or by an expression over it"
        )
    if len(key) == 1 and rows >= _MANY:
        unchanged = query.lineage(available, key, available).columns
        for name in job.partition_by:
            origin = next((found for column, found in unchanged.items() if column.lower() == name.lower()), None)
            if origin is not None and origin.unchanged and list(origin.inputs) == key:
                yield (
                    f"partition_by: {name} is the key, so there is a partition for each of {text.rows(rows)}; "
                    f"partition by fewer values, such as pmod(hash({key[0]}), 16), or cluster by it"
                )
    if job.cluster_by and not decided.intersection(job.cluster_by):
        yield (
            f"cluster_by: {', '.join(job.cluster_by)} tells nothing of the key, so a merge of few keys opens most "
            "files; add a column of the key"
        )
