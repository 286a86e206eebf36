"""
A look at the upstreams of a job that is about to be created, all as of one instant if there are several.

The job begins with what they have then, so what cannot be read as of an instant is refused here.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from airflow_backfill_provider.core.clock import Clock
from airflow_backfill_provider.core.durations import duration
from airflow_backfill_provider.core.errors import InvalidJobError, UpstreamError, UpstreamNotFinishedError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.scan.offset import HistoryPoint, Offset
from airflow_backfill_provider.jobs.chain import require_finished
from airflow_backfill_provider.jobs.chain_frontier import offset_as_of
from airflow_backfill_provider.jobs.diamonds import Offsets, SeveralUpstreams
from airflow_backfill_provider.sources import open_source
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.sources.description import UpstreamDescription
from airflow_backfill_provider.strategies.choice import StrategyChoice

StorageOptions = Mapping[str, str] | None

THROUGH_A_ROW_VIEW = (
    "make a view of its rows first (SELECT … FROM upstream), and name that view here once it is finished"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """An upstream beside the one that leads, as of the instant of the look."""

    source: Source
    described: UpstreamDescription

    @property
    def point(self) -> HistoryPoint:
        """The point of its history."""
        return self.source.point(self.described.offset)

    def require_changes(self, name: str, images: Sequence[str]) -> None:
        """
        Refuse an upstream whose changes do not say what the query needs to know of them.

        :param name: its name in the query.
        :param images: the columns of which the values before a change are needed.
        :raises InvalidJobError: with what they lack.
        :raises UpstreamError: if they cannot be read.
        """
        self.described.require_changes()
        known = self.source.old_columns
        if lacking := [] if known is None else [column for column in images if column not in known]:
            raise InvalidJobError(
                f"upstreams.{name}: changes of {self.source.location} do not have the value that {', '.join(lacking)} "
                f"had before, which this query needs; {THROUGH_A_ROW_VIEW}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstLook:
    """
    What the look has seen.

    :param described: the upstream, or the one that leads.
    :param several: all upstreams by their names, the one that leads first; none if there is only one.
    """

    described: UpstreamDescription
    several: Mapping[str, Seen] = field(default_factory=dict)

    @property
    def others(self) -> Mapping[str, Seen]:
        """The upstreams beside the one that leads, by their names."""
        return dict(list(self.several.items())[1:])


def look(job: BackfillJob, upstream: Source, storage_options: StorageOptions, clock: Clock) -> FirstLook:
    """
    Look at a job's upstreams: at one as it is now, at several as of the clock's instant.

    :raises InvalidJobError: if one of several cannot be read as of an instant.
    :raises UpstreamError: if there is none to read; an unfinished view is no upstream yet.
    """
    if not job.upstreams:
        described = upstream.at()
        require_finished(described.view, storage_options)
        return FirstLook(described=described)
    instant = clock()
    sources = {name: open_source(found, storage_options) for name, found in job.others.items()}
    everything = {job.lead_name: upstream, **sources}
    for name, source in everything.items():
        _require_as_of_an_instant(name, source)
    for name, source in sources.items():
        _require_named_changes(name, source)
    for source in everything.values():
        require_finished(source.view_at(), storage_options)
    offsets = _offsets(everything, instant, storage_options)
    seen = {
        name: Seen(source=source, described=_at(source, offsets[name], storage_options))
        for name, source in everything.items()
    }
    return FirstLook(described=seen[job.lead_name].described, several=seen)


def require_kept(others: Mapping[str, Seen], choice: StrategyChoice) -> None:
    """
    Refuse upstreams whose changes are gone before history is read, if they wait until then.

    :raises InvalidJobError: with the upstream and the times.
    """
    estimate = choice.estimates.get(choice.strategy.name)
    if estimate is None or not choice.strategy.ends_windows:
        return
    needed = dt.timedelta(hours=estimate.hours)
    for name, seen in others.items():
        kept = seen.source.changes_kept_for()
        if kept is not None and kept < needed:
            raise InvalidJobError(
                f"upstreams.{name}: the backfill takes about {duration(needed.total_seconds())}, and "
                f"{seen.source.location} keeps changes for {duration(kept.total_seconds())}; keep them longer, or "
                "raise the rate limit"
            )


def _require_as_of_an_instant(name: str, source: Source) -> None:
    if source.present is not None or source.splits is not None:
        raise InvalidJobError(
            f"upstreams.{name}: {source.location} cannot be read again as of an instant, and a change of another table "
            f"must find its rows again; {THROUGH_A_ROW_VIEW}"
        )


def _require_named_changes(name: str, source: Source) -> None:
    """Refuse an upstream beside the lead whose rows may all go without changes that name them."""
    if source.may_be_cleared:
        raise InvalidJobError(
            f"upstreams.{name}: all rows of {source.location} may be removed at once (TRUNCATE), and no change tells "
            f"which; {THROUGH_A_ROW_VIEW}"
        )


def _offsets(sources: Mapping[str, Source], instant: dt.datetime, storage_options: StorageOptions) -> Offsets:
    """
    Return the offsets of all upstreams that the job begins with.

    :raises InvalidJobError: if they cannot be read together.
    :raises UpstreamNotFinishedError: if they cannot be read together yet.
    """
    for name, source in sources.items():
        if offset_as_of(source, instant, storage_options) is None:
            source.at()
            raise UpstreamError(
                f"upstreams.{name}: by the times of its commits, {source.location} has nothing that is as old as "
                f"{instant:%Y-%m-%d %H:%M:%S} UTC; wait until it has, or set this machine's clock"
            )
    several = SeveralUpstreams(sources, storage_options=storage_options)
    several.require_comparable()
    together = several.as_of(instant)
    if together is None:
        raise UpstreamNotFinishedError(
            f"upstreams: no epochs of {', '.join(several.views)} have all of their common tables at one version yet; "
            "run the jobs of these views up to one instant, for example in one DAG, and then create this job"
        )
    return together.offsets


def _at(source: Source, offset: Offset, storage_options: StorageOptions) -> UpstreamDescription:
    described = source.at(offset)
    require_finished(described.view, storage_options)
    return described
