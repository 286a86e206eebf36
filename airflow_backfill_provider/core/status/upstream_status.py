"""What the status of a job says about each of several upstreams."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.scan.offset import BEGINNING, Offset
from airflow_backfill_provider.core.status.chain import ChainedJob, UpstreamChain
from airflow_backfill_provider.core.status.change_feed import ChangeFeed


class UpstreamStatus(BaseModel):
    """
    The status of one of several upstreams.

    :param location: where it is.
    :param leads: whether it is the one whose rows are read in chunks.
    :param version: its offset that the view is at; ``None`` before the first epoch.
    :param as_of: when this offset was committed.
    :param latest_version: its newest offset.
    :param lag_versions: how many offsets it has after the one that the view is at.
    :param offset_name: what an offset is called, such as ``version``.
    :param lag_unit: what ``lag_versions`` counts.
    :param lag_seconds: age of the oldest unread offset; ``None`` before the first epoch, or if it is unknown.
    :param behind_since: when the oldest unread offset was committed.
    :param answers: whether it answered; if not, its lag is unknown.
    :param headroom_hours: hours until it may delete changes that an epoch needs; ``None`` if no epoch needs any.
    :param chain: if it is itself a job's view, the jobs before this one, in the order in which they run.
    :param root_lag_seconds: age of the oldest change of that chain's first upstream that the view may lack; ``None`` if
        there is no chain, or if it is unknown.
    """

    model_config = ConfigDict(frozen=True)

    location: str
    leads: bool
    version: Offset | None
    as_of: dt.datetime | None
    latest_version: Offset
    lag_versions: int
    offset_name: str
    lag_unit: str
    lag_seconds: float | None
    behind_since: dt.datetime | None
    answers: bool
    headroom_hours: float | None
    chain: tuple[ChainedJob, ...] = ()
    root_lag_seconds: float | None = None


def upstream_statuses(
    settings: JobSettings,
    committed: Barrier | None,
    feed: ChangeFeed,
    others: Mapping[str, ChangeFeed],
    chains: Mapping[str, UpstreamChain],
    now: dt.datetime,
) -> dict[str, UpstreamStatus]:
    """
    Return the status of each of several upstreams by its name, that of the lead first; none if there is only one.

    :param committed: the barrier of the newest committed epoch, if there is one.
    :param feed: the changes of the lead that no epoch has read.
    :param others: those of the other upstreams, by their names.
    :param chains: the jobs whose views lead to each upstream, by its name.
    """
    if not others:
        return {}
    job = settings.definition
    feeds = {job.lead_name: feed, **others}
    return {
        name: _status(settings, name, found, committed, now).model_copy(update=_chained(chains.get(name), now))
        for name, found in feeds.items()
    }


def furthest_behind(upstreams: Mapping[str, UpstreamStatus]) -> str:
    """
    Return the name of the upstream that a view is furthest behind, by the age of what it has not read.

    One that does not answer counts as further behind than any other, because its lag is unknown.

    :param upstreams: several upstreams by their names, the one that leads first.
    :returns: of equal ones the first; empty if there are none.
    """

    def behind(name: str) -> tuple[bool, bool, float]:
        found = upstreams[name]
        return not found.answers, bool(found.lag_versions), found.lag_seconds or 0.0

    return max(upstreams, key=behind, default="")


def smallest_headroom(feeds: list[ChangeFeed], now: dt.datetime) -> float | None:
    """Return the hours until the first of some upstreams may delete needed changes; ``None`` if none needs any."""
    known = [left / dt.timedelta(hours=1) for feed in feeds if (left := feed.headroom(now)) is not None]
    return min(known, default=None)


def _chained(chain: UpstreamChain | None, now: dt.datetime) -> dict[str, Any]:
    if chain is None:
        return {}
    behind = chain.behind_root
    return {"chain": chain.jobs, "root_lag_seconds": None if behind is None else behind.seconds(now)}


def _status(
    settings: JobSettings, name: str, feed: ChangeFeed, committed: Barrier | None, now: dt.datetime
) -> UpstreamStatus:
    job = settings.definition
    definition = job.all_upstreams[name]
    window = None if committed is None else committed.window(name)
    begun = settings.first_point_of(name)
    reached = window.to_offset if window else (begun.offset if begun else BEGINNING)
    lag = feed.latest.distance_from(reached)
    age = None if feed.unread_since is None else max((now - feed.unread_since).total_seconds(), 0.0)
    return UpstreamStatus(
        location=definition.location,
        leads=name == job.lead_name,
        version=window.reached_point.offset if window and window.reached_point else None,
        as_of=window.watermark if window and window.reached_point else None,
        latest_version=feed.latest,
        lag_versions=lag,
        offset_name=definition.offset_name,
        lag_unit=definition.lag_unit,
        lag_seconds=(age if lag else None if feed.unanswered else 0.0) if window else None,
        behind_since=feed.unread_since if lag else None,
        answers=not feed.unanswered,
        headroom_hours=smallest_headroom([feed], now),
    )
