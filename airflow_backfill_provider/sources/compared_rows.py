"""
Upstreams that record no changes, but are so small that their rows at both ends of a window can be compared instead.

Only those beside the lead: positions need the changes of the lead itself.
"""

from __future__ import annotations

from airflow_backfill_provider.core import text
from airflow_backfill_provider.core.errors import ChangeDataFeedDisabledError
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.sources.description import UpstreamDescription

MOST_COMPARED_ROWS = 1_000_000
"""The most rows that are compared: an epoch reads all of them twice, however few have changed."""


def require_few_rows(source: Source, described: UpstreamDescription) -> None:
    """
    Refuse an upstream that has too many rows to compare. They are counted, because statistics may be wrong.

    :param described: the upstream as of the offset at which it is counted.
    :raises ChangeDataFeedDisabledError: with the number, and what to do.
    :raises DataFileError: if a file is gone.
    """
    files = source.numbered_files
    rows = None if files is None else files.counted(described.offset, range(len(files.files(described.offset))))
    if rows is not None and rows <= MOST_COMPARED_ROWS:
        return
    why = described.without_changes or f"{source.location} recorded no changes when the job was created"
    many = "an unknown number of rows" if rows is None else text.rows(rows)
    raise ChangeDataFeedDisabledError(
        f"{why}. Then create the job, or rebuild it. Without the changes, the rows at both ends of each window are "
        f"compared, of at most {text.rows(MOST_COMPARED_ROWS)}, and the table has {many} as of {described.offset}"
    )
