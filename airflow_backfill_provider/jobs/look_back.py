"""
A look at the upstreams of a job that begins at an earlier point of their history, ``as_of``.

A view that was a table before shows the query's rows as of this point. A view that keeps former rows has them since
then. Epochs apply all changes after it, so these have to be there.
"""

from __future__ import annotations

import datetime as dt

from airflow_backfill_provider.core.clock import Clock
from airflow_backfill_provider.core.epoch.settings import ResolvedUpstream
from airflow_backfill_provider.core.errors import ChangeFeedGapError, InvalidJobError
from airflow_backfill_provider.core.job.as_of import OLDEST, AsOf
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.jobs.chain import require_finished
from airflow_backfill_provider.jobs.chain_frontier import offset_as_of
from airflow_backfill_provider.jobs.first_look import FirstLook, StorageOptions, look
from airflow_backfill_provider.jobs.resolution import resolve_upstream
from airflow_backfill_provider.sources import open_source
from airflow_backfill_provider.sources.base import Source


def look_at_beginning(job: BackfillJob, upstream: Source, storage_options: StorageOptions, clock: Clock) -> FirstLook:
    """
    Look at a job's upstreams as of the point of their history that the job begins at; that is now for most jobs.

    :raises BackfillError: as :func:`~airflow_backfill_provider.jobs.first_look.look` and :func:`look_back`.
    """
    if job.as_of is None:
        return look(job, upstream, storage_options, clock)
    return look_back(job, job.as_of, upstream, storage_options, clock())


def look_back(
    job: BackfillJob, as_of: AsOf, upstream: Source, storage_options: StorageOptions, now: dt.datetime
) -> FirstLook:
    """
    Look at a job's upstreams as of the point of their history that the job begins at.

    :param as_of: this point, as the job names it.
    :raises InvalidJobError: if the upstreams have no such point, or cannot be read there.
    :raises UpstreamError: if there is none to read; an unfinished view is no upstream yet.
    """
    if isinstance(as_of, dt.datetime) and as_of > now:
        raise InvalidJobError(f"as_of: {as_of:%Y-%m-%d %H:%M:%S} UTC lies in the future; give a time that has passed")
    if job.upstreams and isinstance(as_of, dt.datetime):
        return look(job, upstream, storage_options, lambda: as_of)
    if upstream.present is not None or upstream.splits is not None:
        raise InvalidJobError(
            f"as_of: {upstream.location} cannot be read as of a point in the past, so no table made of it can be "
            "compared; leave backfill_from and as_of out"
        )
    require_finished(upstream.view_at(), storage_options)
    offset = _oldest(job, upstream) if as_of == OLDEST else _offset_of(as_of, upstream, storage_options)
    described = upstream.at(offset)
    require_finished(described.view, storage_options)
    return FirstLook(described=described)


def _oldest(job: BackfillJob, upstream: Source) -> Offset:
    newest = upstream.at()
    newest.require_changes()
    found = upstream.followed_since(resolve_upstream(job, newest))
    return newest.offset if found is None else found


def _offset_of(as_of: int | dt.datetime, upstream: Source, storage_options: StorageOptions) -> Offset:
    if isinstance(as_of, dt.datetime):
        found = offset_as_of(upstream, as_of, storage_options)
        if found is None:
            raise InvalidJobError(
                f"as_of: {upstream.location} has nothing that is as old as {as_of:%Y-%m-%d %H:%M:%S} UTC; give a "
                "later time"
            )
        return found
    newest = upstream.latest()
    if newest.number is None or as_of > newest.number:
        raise InvalidJobError(
            f"as_of: the newest version of {upstream.location} is {newest}; give that or an older one"
        )
    return Offset(as_of)


def require_followed(
    job: BackfillJob, created_on: ResolvedUpstream, at: Offset, upstream: Source, storage_options: StorageOptions
) -> None:
    """
    Refuse upstreams whose changes since the point that a job begins at can no longer be read.

    :param created_on: the upstreams as of this point.
    :param at: the offset of this point in the upstream, or in the one that leads.
    :raises UpstreamError: with what is gone, or has changed since.
    """
    others = {name: open_source(found, storage_options) for name, found in job.others.items()}
    for name, source in {job.lead_name: upstream, **others}.items():
        theirs = created_on.others.get(name, created_on)
        after = created_on.others[name].point.offset if name in others else at
        newest = source.at()
        newest.require_as_created(theirs)
        newest.require_changes()
        source.require_changes(after, newest.offset)
        source.require_used_columns(after, newest.offset, theirs)
        source.require_kept_values(after, newest.offset, theirs)
        since = source.followed_since(theirs, after)
        if since is not None and after < since:
            raise ChangeFeedGapError(
                f"as_of: {source.location} can be followed since {since} only, and not since {after}: files are gone "
                "that the changes in between need, or its change data feed was off; give as_of a later value"
            )
