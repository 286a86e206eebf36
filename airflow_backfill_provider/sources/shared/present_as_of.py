"""
Present rows as of an earlier offset, on Spark, for a source that cannot read earlier rows.

Rows that have changed since are left out, because nobody knows what they were.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence

from pyspark.sql import DataFrame
from tenacity import Retrying, retry_if_result, wait_random_exponential

from airflow_backfill_provider.core.errors import ConcurrentUpdateError, UpstreamUnavailableError
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.core.scan.keys import EVERYTHING
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.sources.present_rows import PresentRows
from airflow_backfill_provider.sources.reader import SourceReader
from airflow_backfill_provider.sources.shared.by_key import without_keys
from airflow_backfill_provider.sources.shared.kept_rows import KEPT

_LONGEST_WAIT = 10
"""The most seconds between two questions whether the changes are there."""


def present_as_of(
    source: Source, present: PresentRows, reader: SourceReader, offset: Offset, key: Sequence[str]
) -> tuple[DataFrame, DataFrame]:
    """
    Read the rows now, and wait until their changes are there.

    :param key: the key columns.
    :returns: the rows that have not changed since the offset, and the keys of those that have.
    :raises ConcurrentUpdateError: if all rows were removed at once since then.
    """
    start = present.begin_reading()
    read = reader.present_rows([EVERYTHING]).persist(KEPT)
    read.count()
    name = f"reading {uuid.uuid4().hex}"

    def end() -> None:
        if not present.end_reading(name, start.server_run):
            raise UpstreamUnavailableError(
                f"{source.location}: the server crashed while its rows were read; nothing is lost, try again"
            )

    end()
    ended_by = dt.datetime.now(dt.UTC)

    def seen_by() -> Offset | None:
        source.refresh()
        found = present.seen_by(name, ended_by, start.server_run)
        if found is None:
            # Otherwise this would go on for ever after a crash.
            end()
        return found

    Retrying(
        retry=retry_if_result(lambda found: found is None),
        wait=wait_random_exponential(multiplier=0.2, max=_LONGEST_WAIT),
    )(seen_by)
    latest = source.latest()
    if reader.is_cleared(offset, latest):
        raise ConcurrentUpdateError(
            f"{source.location} was truncated, so its rows as of offset {offset} are gone; run an epoch, and try again"
        )
    changed = reader.changes(min(start.changes_after, offset), latest).select(*map(quote, key)).distinct()
    return without_keys(read, changed, key), changed
