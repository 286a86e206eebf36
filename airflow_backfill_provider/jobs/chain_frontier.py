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
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.sources import open_source
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.state.backfill_reader import BackfillReader

EPOCHS_AT_ONCE = 50
"""How many epochs of a barrier log are read at once, from its end."""


def offset_as_of(
    upstream: Source, instant: dt.datetime, storage_options: Mapping[str, str] | None = None, *, most: int = MOST_JOBS
) -> Offset | None:
    """
    Return the newest offset of an upstream at an instant; of a view, that of the newest epoch that looked so far.

    :param most: how many views are followed to their own upstreams.
    :returns: ``None`` if the upstream's history, or the view's first epoch, is later.
    """
    view = upstream.view_at() if most else None
    reader = None if view is None or not view.is_finished else reader_of(view, storage_options or {})
    if view is None or reader is None:
        return upstream.offset_at(instant)
    looked = _looked_by(reader, instant, storage_options, most - 1)
    found = _newest_epoch(reader, view, lambda barrier, _: looked(barrier))
    if found is None or found[1].view_version is None:
        return None
    offset = upstream.offset_of_version(_last_of(view, found[1].view_version, storage_options))
    return upstream.offset_at(instant) if offset is None else offset


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
    found = None if reader is None else _newest_epoch(reader, view, lambda _, commit: _is_in(commit, offset))
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
    found = _newest_epoch(theirs, view, lambda _, commit: _is_in(commit, offset))
    return barrier.upstream.watermark if found is None else _watermark(theirs, found[0], storage_options, most - 1)


def _looked_by(
    reader: BackfillReader, instant: dt.datetime, storage_options: Mapping[str, str] | None, most: int
) -> Callable[[Barrier], bool]:
    """Return a function that tells whether a barrier of a job looks no further than an instant of the chain's root."""
    looks = [
        _looked_at(name, open_source(definition, storage_options), instant, storage_options, most)
        for name, definition in reader.settings().definition.all_upstreams.items()
    ]
    return lambda barrier: all(look(barrier) for look in looks)


def _looked_at(
    name: str, source: Source, instant: dt.datetime, storage_options: Mapping[str, str] | None, most: int
) -> Callable[[Barrier], bool]:
    """Return a function that tells whether a barrier looks at one of its upstreams no further than an instant."""
    if source.view_at() is None:
        return lambda barrier: barrier.window(name).watermark <= instant
    bound = offset_as_of(source, instant, storage_options, most=most)
    return lambda barrier: bound is not None and barrier.window(name).to_offset <= bound


def _newest_epoch(
    reader: BackfillReader, view: UpstreamView, is_wanted: Callable[[Barrier, EpochCommit], bool]
) -> tuple[Barrier, EpochCommit] | None:
    """Return the newest committed epoch of a finished view that is wanted."""
    before = reader.last_epoch() + 1
    while before > 1:
        since = max(before - EPOCHS_AT_ONCE, 1)
        barriers, commits = reader.log(since_epoch=since, before_epoch=before)
        pinned = {barrier.epoch: barrier for barrier in barriers}
        for commit in reversed(commits):
            whole = commit.completed and not commit.given_up and commit.incarnation == view.incarnation
            if whole and is_wanted(pinned[commit.epoch], commit):
                return pinned[commit.epoch], commit
        before = since
    return None


def _last_of(view: UpstreamView, version: int, storage_options: Mapping[str, str] | None) -> int:
    """Return the last version with the same rows; the commit that finishes a view, for example, changes none."""
    log = DeltaLog(view.location, storage_options)
    while (following := log.commit(version + 1)) is not None and not following.changes_data:
        version += 1
    return version
