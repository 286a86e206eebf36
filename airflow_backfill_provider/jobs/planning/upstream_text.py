"""Describes each of several upstreams in words: its size, and what an epoch does if a small part of it changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from airflow_backfill_provider.core import text
from airflow_backfill_provider.core.refresh import Refresh
from airflow_backfill_provider.core.refresh_cost import basis
from airflow_backfill_provider.jobs.planning.planned_changes import CHANGED_SHARE, PlannedChange
from airflow_backfill_provider.jobs.planning.planned_upstreams import PlannedUpstream


def upstream_facts(upstreams: Mapping[str, PlannedUpstream]) -> Iterator[tuple[str, str]]:
    """Yield the name of each upstream, and its size; nothing if there is only one."""
    for name, found in upstreams.items():
        leads = "leads; " if found.leads else ""
        size = f"{text.rows(found.rows)}, {text.size(found.bytes)} in {text.files(found.files)}"
        what = "removed files" if found.is_compared else "changes"
        kept = "" if found.kept_hours is None else f", keeps {what} for {text.duration(found.kept_hours * 3600)}"
        compared = (
            "; without change data feed, so an epoch compares its rows at both ends of the window"
            if found.is_compared
            else ""
        )
        sent = "; so small that Spark sends it to every executor by default" if found.is_broadcast else ""
        yield name, f"{leads}{size} as of {found.offset_name} {found.version}{kept}{compared}{sent}"


def change_facts(upstreams: Mapping[str, PlannedUpstream], refresh: Refresh) -> Iterator[tuple[str, str]]:
    """
    Yield what an epoch does if 0.1 % of one upstream changes, and from where on computing the whole view costs less.

    :param refresh: what the job asks for: its epochs may choose the latter, or else only a rebuild does that.
    """
    for name, found in upstreams.items():
        if found.change is not None:
            yield f"change of {name}", f"{_epoch(name, found.change)}; {_whole(found.change, refresh)}"


def _epoch(name: str, change: PlannedChange) -> str:
    most = change.touched_at_most
    at_most = "" if most is None or most <= change.touched else f", or {most:,} if they name the most frequent values"
    joined = (
        "joins these anew"
        if change.leads == (name,) and change.touched == change.changed
        else f"joins about {text.rows(change.touched)} of {' and '.join(change.leads)} anew{at_most}"
    )
    read = [f"{table} ({text.rows(rows)})" for table, rows in change.reads.items()]
    reads = f", and reads all of {' and '.join(read)}" if read else ""
    return f"if {text.percent(1 / CHANGED_SHARE)} ({text.rows(change.changed)}) change, an epoch {joined}{reads}"


def _whole(change: PlannedChange, refresh: Refresh) -> str:
    if change.break_even == 0:
        return f"{basis(change.cost)}, computing the whole view always costs less for so few rows"
    whole = "computing the whole view, which the epoch then does," if refresh is Refresh.AUTO else "a rebuild"
    if change.break_even is None:
        return f"{basis(change.cost)}, that costs less than {whole.partition(',')[0]} even if all rows change"
    return f"{basis(change.cost)}, {whole} costs less from about {text.rows(change.break_even)} on"
