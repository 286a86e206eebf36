"""
Diamonds: several upstreams of a job, of which some are views, and what of them can be read together.

Two views of a common table, or a view and a table that it is made of, must show one version of that table. The epochs
of the views say which versions they have (:mod:`~airflow_backfill_provider.jobs.view_logs`), and the newest ones that
agree are read (:mod:`~airflow_backfill_provider.core.epoch.frontiers`). Other tables beside a view are read as of the
instant up to which the view has everything.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

from airflow_backfill_provider.core.epoch.frontiers import (
    Choice,
    HeldBack,
    Looked,
    Side,
    TableSide,
    ViewSide,
    held_back,
    newest_agreeing,
    oldest_agreeing_after,
)
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.scan.offset import BEGINNING, Offset
from airflow_backfill_provider.core.status.chain import HeldUpstream
from airflow_backfill_provider.jobs.looked_until import LookedUntil, looked_until
from airflow_backfill_provider.jobs.view_logs import ViewLog, ViewLogs
from airflow_backfill_provider.sources.base import Source

Offsets = Mapping[str, Offset]
"""An offset of each upstream, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTogether:
    """
    Offsets of all upstreams that can be read together.

    :param instant: the instant that they are as of.
    :param offsets: the offsets; those where the job is, if there are no newer ones that agree.
    :param agrees: whether there are any that agree, from where the job is.
    """

    instant: dt.datetime
    offsets: Offsets
    agrees: bool = True


class SeveralUpstreams:
    """
    The upstreams of a job.

    :param sources: the upstreams by their names; there is a view among them, unless every offset goes with any other.
    :param since: where the job is; empty before it is created.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(
        self,
        sources: Mapping[str, Source],
        *,
        since: Offsets | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self.sources = sources
        self.since = since or {}
        self._logs = ViewLogs(storage_options)

    @cached_property
    def views(self) -> Mapping[str, ViewLog]:
        """The upstreams that are views, with their logs."""
        found = {name: self._logs.of(source) for name, source in self.sources.items()}
        return {name: log for name, log in found.items() if log is not None}

    def require_comparable(self) -> None:
        """
        Refuse upstreams that are one table, or are made of a common table of which each job has a log of its own.

        :raises InvalidJobError: with both names and the table.
        """
        seen: dict[str, tuple[str, Source]] = {}
        for name, source in self.sources.items():
            log = self.views.get(name)
            roots = {self._table_ids[name]: source} if log is None else log.roots
            for root, table in roots.items():
                other, their = seen.setdefault(root, (name, table))
                if other == name:
                    continue
                if not (table.offsets_are_shared and their.offsets_are_shared):
                    raise InvalidJobError(
                        f"upstreams: {other} and {name} both come from {table.location}, of which each job has a log "
                        "of its own, so they could show two versions of it; make one view of its rows, and read both "
                        "from that"
                    )
                if name not in self.views and other not in self.views:
                    raise InvalidJobError(
                        f"upstreams: {other} and {name} have one table id, {root}: they are one table, or one is "
                        "a copy of the other's files; name a table once and give it two aliases in the query, or make "
                        "a copy with CREATE TABLE … AS SELECT"
                    )

    def as_of(self, instant: dt.datetime, *, up_to: Offsets | None = None) -> ReadTogether | None:
        """
        Return the newest offsets at or before an instant that can be read together.

        :param up_to: offsets of some upstreams that these are not read behind.
        :returns: ``None`` if there are none, and the job is nowhere yet.
        :raises UpstreamError: if they are older than what the logs of the views keep.
        """
        sides = self._sides(instant)
        if sides is None:
            return None
        bounds = up_to or {}
        bounded = {name: side.up_to(bounds[name]) if name in bounds else side for name, side in sides.items()}
        chosen = newest_agreeing(bounded)
        if chosen is None:
            return ReadTogether(instant=instant, offsets=self.since, agrees=False) if self.since else None
        until = self._looked_until(chosen, instant)
        offsets = {name: self._end(name, looked, chosen, until) for name, looked in chosen.items()}
        # Before the job is created, a table may have nothing yet that is as old as what the views have.
        return None if BEGINNING in offsets.values() else ReadTogether(instant=until.instant, offsets=offsets)

    def in_steps(self, instant: dt.datetime, lead: str, end: Offset) -> ReadTogether | None:
        """
        Return offsets that can be read together so that one upstream is read about as far as an offset.

        It is read further if nothing before that agrees, because each step has to move on.

        :param instant: the latest instant.
        :param lead: the upstream.
        :param end: its offset.
        """
        sides = self._sides(instant)
        if sides is None:
            return None
        chosen = newest_agreeing({**sides, lead: sides[lead].up_to(end)})
        if chosen is None or chosen[lead].offset <= self._begins(lead):
            chosen = oldest_agreeing_after(sides, lead, end) or chosen
        if chosen is None:
            return self.as_of(instant, up_to={lead: end})
        together = [chosen[lead], *(chosen[name] for name in self.views if _share(chosen[name], chosen[lead]))]
        then = max(looked.instant for looked in together)
        return self.as_of(min(instant, then), up_to={lead: chosen[lead].offset})

    def waits_for(self, instant: dt.datetime, read: ReadTogether) -> tuple[HeldBack, ...]:
        """Return which upstreams could be read further at an instant, if the jobs of others had run."""
        sides = self._sides(instant)
        if sides is None or not self.views:
            return ()
        held = tuple(held_back(sides, {name: self._left(name, offset) for name, offset in read.offsets.items()}))
        chosen = newest_agreeing(sides)
        return held if held or chosen is None else tuple(self._tables_held_back(chosen, instant))

    def told(self, held: HeldBack) -> str:
        """Return which job an upstream waits for, and why."""
        roots = {root: source for log in self.views.values() for root, source in log.roots.items()}
        common = roots[held.root].location if held.root in roots else held.root
        log = self.views.get(held.behind)
        who = f"table {held.behind}" if log is None else f"job {log.view.job}"
        return f"waits for {who}, which has not read as far in {common}"

    @cached_property
    def _table_ids(self) -> Mapping[str, str]:
        return {name: source.at().table_id for name, source in self.sources.items() if name not in self.views}

    def _sides(self, instant: dt.datetime) -> Mapping[str, Side] | None:
        """Return the upstreams as of an instant, from where the job is; ``None`` if one has nothing then."""
        sides: dict[str, Side] = {}
        for name, source in self.sources.items():
            log = self.views.get(name)
            if log is not None:
                sides[name] = self._side_of_view(name, log, instant)
                continue
            since, newest = self.since.get(name, BEGINNING), source.offset_at(instant)
            if newest is None and name not in self.since:
                return None
            sides[name] = TableSide(
                root=self._table_ids[name],
                newest=since if newest is None else max(newest, since),
                since=since,
                committed_at=source.watermark,
            )
        return sides

    def _side_of_view(self, name: str, log: ViewLog, instant: dt.datetime) -> ViewSide:
        begins = self._begins(name)
        return ViewSide(takewhile(lambda looked: looked.offset >= begins, log.looked(instant)))

    def _begins(self, name: str) -> Offset:
        """Return the offset where the job is, as the epochs of a view have it."""
        return self._left(name, self.since[name]) if name in self.since else BEGINNING

    def _left(self, name: str, offset: Offset) -> Offset:
        """Return the offset of the epoch whose rows a view has at an offset; of a table, the same offset."""
        log = self.views.get(name)
        left = None if log is None else log.offset_left(offset)
        return offset if left is None else left

    def _looked_until(self, chosen: Choice, instant: dt.datetime) -> LookedUntil:
        found = [looked_until(log, chosen[name], instant) for name, log in self.views.items()]
        return min(found, key=lambda until: until.instant, default=LookedUntil(instant))

    def _end(self, name: str, looked: Looked, chosen: Choice, until: LookedUntil) -> Offset:
        """Return the offset up to which an upstream is read."""
        since, log = self.since.get(name, BEGINNING), self.views.get(name)
        if log is not None:
            return max(log.last_with_rows_of(looked.offset), since)
        if not until.lacks or self._is_root(name, chosen):
            return looked.offset
        as_of = self.sources[name].offset_at(until.instant)
        return max(min(looked.offset, since if as_of is None else as_of), since)

    def _is_root(self, name: str, chosen: Choice) -> bool:
        """Return whether a table is a root of a view beside it, so that the epochs of that say its version."""
        return any(self._table_ids[name] in chosen[view].frontier for view in self.views)

    def _tables_held_back(self, chosen: Choice, instant: dt.datetime) -> Iterator[HeldBack]:
        """Yield the tables that are read only as far as a view beside them has looked."""
        for view, log in self.views.items():
            until = looked_until(log, chosen[view], instant)
            for name, source in self.sources.items():
                if not until.lacks or name in self.views or self._is_root(name, chosen):
                    continue
                as_of, newest = source.offset_at(until.instant), source.offset_at(instant)
                if as_of is not None and newest is not None and as_of < newest:
                    yield HeldBack(ahead=name, behind=view, root=until.lacks)


def held_upstreams(
    sources: Mapping[str, Source], read: Offsets, instant: dt.datetime, storage_options: Mapping[str, str] | None
) -> tuple[HeldUpstream, ...]:
    """
    Return the upstreams of a job that wait for other jobs, if the job can read nothing new until these have run.

    :param read: the offsets that the job has read up to.
    :param instant: the present.
    :raises BackfillError: if it is unknown.
    """
    several = SeveralUpstreams(sources, since=read, storage_options=storage_options)
    together = several.as_of(instant) if several.views else None
    if together is None or together.offsets != read:
        return ()
    return tuple(HeldUpstream(held.ahead, several.told(held)) for held in several.waits_for(instant, together))


def _share(one: Looked, other: Looked) -> bool:
    return not one.frontier.keys().isdisjoint(other.frontier)
