"""
What a view has seen of its own upstream, by the barrier log of its job.

A version of a view is committed after the instant that its epoch looked up to: a scheduled run of 10:00 commits at
10:02. So "the view as of 10:00" is not the version that was committed by then. It is the one after the newest epoch
that looked no further than 10:00. An epoch without changed rows counts, too. Jobs of one DAG so see the same instant.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.core.job.upstream_view import UpstreamView
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.jobs.chain import MOST_JOBS, reader_of
from airflow_backfill_provider.jobs.view_logs import ViewLogs, whole_epochs
from airflow_backfill_provider.sources import open_source
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.state.backfill_reader import BackfillReader


def offset_as_of(
    upstream: Source, instant: dt.datetime, storage_options: Mapping[str, str] | None = None
) -> Offset | None:
    """
    Return the newest offset of an upstream at an instant; of a view, that of the newest epoch that looked so far.

    :returns: ``None`` if the upstream's history, or the view's first epoch, is later.
    """
    log = ViewLogs(storage_options).of(upstream)
    if log is None:
        return upstream.offset_at(instant)
    looked = next(log.looked(instant), None)
    return None if looked is None else log.last_with_rows_of(looked.offset)


def lacked_since(
    view: UpstreamView, offset: Offset, storage_options: Mapping[str, str] | None = None, *, most: int = MOST_JOBS
) -> dt.datetime | None:
    """
    Return the instant up to which an older version of a view has all that the root of its chain had.

    :param offset: the version.
    :param most: how many views are followed to their own upstreams.
    :returns: ``None`` if the job's newest epoch is in it, or if the barrier log does not tell.
    """
    reader = reader_of(view, storage_options or {})
    found = None if reader is None else _newest_epoch(reader, view, lambda commit: _is_in(commit, offset))
    if reader is None or found is None or found[0].epoch == reader.last_epoch():
        return None
    return _watermark(reader, found[0], storage_options, most - 1)


def _is_in(commit: EpochCommit, offset: Offset) -> bool:
    return commit.view_version is not None and Offset(commit.view_version) <= offset


def _watermark(
    reader: BackfillReader, barrier: Barrier, storage_options: Mapping[str, str] | None, most: int
) -> dt.datetime:
    """Return the instant of the chain's root that an epoch looked up to."""
    view = open_source(reader.settings().definition.upstream, storage_options).view_at() if most else None
    theirs = None if view is None else reader_of(view, storage_options or {})
    if view is None or theirs is None:
        return barrier.upstream.watermark
    offset = barrier.upstream.to_offset
    found = _newest_epoch(theirs, view, lambda commit: _is_in(commit, offset))
    return barrier.upstream.watermark if found is None else _watermark(theirs, found[0], storage_options, most - 1)


def _newest_epoch(
    reader: BackfillReader, view: UpstreamView, is_wanted: Callable[[EpochCommit], bool]
) -> tuple[Barrier, EpochCommit] | None:
    """Return the newest committed epoch of a finished view that is wanted."""
    wanted = ((barrier, commit) for barrier, commit, _ in whole_epochs(reader, view) if is_wanted(commit))
    return next(wanted, None)
