"""
The windows of the upstreams beside the one that leads, all ending at one instant.

The instant is the one that the requester asks for, or else the clock's, read before any log. If the strategy ends the
window of the lead earlier, it is the time of that window's end; and as long as all windows wait where the job began,
these do, too.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass

from airflow_backfill_provider.core.epoch.settings import OtherUpstream
from airflow_backfill_provider.core.epoch.window import UpstreamWindow
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.jobs.chain import require_finished
from airflow_backfill_provider.jobs.chain_frontier import offset_as_of
from airflow_backfill_provider.protocol.decision import EpochInputs
from airflow_backfill_provider.sources import open_source
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.sources.description import UpstreamDescription

MOST_AHEAD = dt.timedelta(minutes=1)
"""How much later than this machine's clock a commit may be stamped without a warning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherWindows:
    """
    The next windows of the other upstreams.

    :param instant: the instant that all windows of the epoch end at; ``None`` if there is one upstream.
    :param windows: the windows, in the order of the settings.
    :param changed: whether rows may have changed in any of them.
    :param warnings: warnings about clocks.
    """

    instant: dt.datetime | None = None
    windows: tuple[UpstreamWindow, ...] = ()
    changed: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def are_wide(self) -> bool:
        """Whether any upstream has new offsets."""
        return any(window.is_wide for window in self.windows)


def instant_of(inputs: EpochInputs, until: dt.datetime | None, now: dt.datetime) -> dt.datetime | None:
    """
    Return the instant to look at the upstreams as of; ``None`` for the newest offset of the only one.

    :param until: the instant that the requester asks for.
    """
    if not inputs.settings.others:
        return until
    # In the future, logs that are read one after the other would be as of different instants.
    return now if until is None else min(until, now)


def other_windows(
    inputs: EpochInputs,
    lead: Source,
    described: UpstreamDescription,
    newest: Offset,
    *,
    instant: dt.datetime | None,
    now: dt.datetime,
    storage_options: Mapping[str, str] | None,
) -> OtherWindows:
    """
    Return the next windows of the other upstreams.

    :param described: the lead at the end of its window.
    :param newest: the newest offset that this window could have ended at.
    :param instant: the instant of that offset.
    :raises UpstreamError: if one of them can no longer be backfilled from.
    """
    settings = inputs.settings
    if not settings.others or instant is None:
        return OtherWindows()
    rests = inputs.strategy.ends_windows and not inputs.state.completed and described.offset == settings.first_offset
    if described.offset < newest:
        instant = min(instant, lead.watermark(described.offset))
    looked = _Looked(inputs, None if rests else instant, storage_options)
    opened = {name: open_source(definition, storage_options) for name, definition in settings.definition.others.items()}
    windows = {name: looked.window(name, opened[name], settings.others[name]) for name in settings.others}
    return OtherWindows(
        instant=instant,
        windows=tuple(windows.values()),
        changed=any(
            opened[name].has_changes(window.from_offset, window.to_offset)
            for name, window in windows.items()
            if window.is_wide
        ),
        warnings=tuple(
            warning
            for name, source in {settings.definition.lead_name: lead, **opened}.items()
            if (warning := _ahead(name, source, now))
        ),
    )


def require_changes(inputs: EpochInputs, windows: OtherWindows, storage_options: Mapping[str, str] | None) -> None:
    """
    Refuse windows with changes that are gone.

    :raises ChangeFeedGapError: with what is gone.
    """
    for window in windows.windows:
        if window.is_wide:
            source = open_source(inputs.settings.definition.others[window.relation], storage_options)
            created_on = inputs.settings.others[window.relation]
            source.require_kept_values(window.from_offset, window.to_offset, created_on)
            if source.has_changes(window.from_offset, window.to_offset):
                source.require_changes(window.from_offset, window.to_offset)


@dataclass(frozen=True, slots=True)
class _Looked:
    """
    A look at the other upstreams as of an instant.

    :param instant: the instant; ``None`` if all windows wait where the previous ones ended.
    """

    inputs: EpochInputs
    instant: dt.datetime | None
    storage_options: Mapping[str, str] | None

    def window(self, name: str, source: Source, created_on: OtherUpstream) -> UpstreamWindow:
        """Return the next window of an upstream."""
        settings, previous = self.inputs.settings, self.inputs.previous
        before = None if previous is None else previous.window(name)
        reached = before.reached_point if before else settings.first_point_of(name)
        from_offset = before.to_offset if before else created_on.point.offset
        if before is None and reached is not None:
            from_offset = reached.offset
        source.refresh()
        if reached is not None:
            source.require_same_history(reached)
        described = source.at(self._end(source, from_offset))
        if described.view is not None and not described.view.is_finished:
            require_finished(described.view, self.storage_options)
        described.require_same_table(created_on)
        described.require_as_created(created_on)
        if settings.needs_changes:
            described.require_changes()
        source.require_same_values(from_offset, described.offset, created_on)
        committed_at = source.watermark(described.offset)
        return UpstreamWindow(
            relation=name,
            table_id=described.table_id,
            from_offset=from_offset,
            to_offset=described.offset,
            watermark=max(committed_at, before.watermark) if before else committed_at,
            row_count=source.row_count(described.offset),
            mark=source.point(described.offset).mark,
        )

    def _end(self, source: Source, from_offset: Offset) -> Offset:
        """Return the last offset at or before the instant, and never one before the window's begin."""
        found = None if self.instant is None else offset_as_of(source, self.instant, self.storage_options)
        return from_offset if found is None or found < from_offset else found


def _ahead(name: str, source: Source, now: dt.datetime) -> str:
    """Return a warning if an upstream's clock is ahead of this machine's; an empty text if it is not."""
    stamped = source.committed_at(source.latest())
    if source.view_at() is not None or stamped is None or stamped <= now + MOST_AHEAD:
        return ""
    return (
        f"the newest commit of {name} is stamped {stamped:%Y-%m-%d %H:%M:%S} UTC, over a minute after this machine's "
        f"clock ({now:%H:%M:%S}); its rows are read once the clock has reached that time"
    )
