"""
The windows of the upstreams beside the one that leads, all ending at one instant.

Where they end is chosen in :mod:`~airflow_backfill_provider.protocol.window_ends`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass

from airflow_backfill_provider.core.epoch.window import UpstreamWindow
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.jobs.chain import require_finished
from airflow_backfill_provider.jobs.diamonds import ReadTogether
from airflow_backfill_provider.protocol.decision import EpochInputs
from airflow_backfill_provider.protocol.window_ends import begin_of
from airflow_backfill_provider.sources import open_source
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.sources.compared_rows import require_few_rows

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


def other_windows(
    inputs: EpochInputs,
    upstreams: Mapping[str, Source],
    ends: ReadTogether,
    *,
    now: dt.datetime,
    storage_options: Mapping[str, str] | None,
) -> OtherWindows:
    """
    Return the next windows of the other upstreams.

    :param upstreams: all upstreams, by their names.
    :param ends: where the windows end.
    :raises UpstreamError: if one of them can no longer be backfilled from.
    """
    created_on = inputs.settings.others
    windows = {
        name: _window(inputs, name, upstreams[name], ends.offsets[name], storage_options=storage_options)
        for name in created_on
    }
    return OtherWindows(
        instant=ends.instant,
        windows=tuple(windows.values()),
        changed=any(
            upstreams[name].has_changes(window.from_offset, window.to_offset)
            for name, window in windows.items()
            if window.is_wide
        ),
        warnings=tuple(warning for name, source in upstreams.items() if (warning := _ahead(name, source, now))),
    )


def require_changes(inputs: EpochInputs, windows: OtherWindows, storage_options: Mapping[str, str] | None) -> None:
    """
    Refuse windows with changes that are gone, and tables that are compared and have grown too large for that.

    :raises ChangeFeedGapError: with what is gone.
    :raises ChangeDataFeedDisabledError: with the number of rows.
    """
    for window in windows.windows:
        if window.is_wide:
            source = open_source(inputs.settings.definition.others[window.relation], storage_options)
            created_on = inputs.settings.others[window.relation]
            source.require_kept_values(window.from_offset, window.to_offset, created_on)
            if source.has_changes(window.from_offset, window.to_offset):
                source.require_changes(window.from_offset, window.to_offset)
                if created_on.compared:
                    require_few_rows(source, source.at(window.to_offset))


def _window(
    inputs: EpochInputs, name: str, source: Source, end: Offset, *, storage_options: Mapping[str, str] | None
) -> UpstreamWindow:
    """Return the next window of an upstream."""
    settings, created_on = inputs.settings, inputs.settings.others[name]
    before = None if inputs.previous is None else inputs.previous.window(name)
    from_offset = begin_of(inputs, name)
    described = source.at(end)
    if described.view is not None and not described.view.is_finished:
        require_finished(described.view, storage_options)
    described.require_same_table(created_on)
    described.require_as_created(created_on)
    if settings.needs_changes and not created_on.compared:
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


def _ahead(name: str, source: Source, now: dt.datetime) -> str:
    """Return a warning if an upstream's clock is ahead of this machine's; an empty text if it is not."""
    stamped = source.committed_at(source.latest())
    if source.view_at() is not None or stamped is None or stamped <= now + MOST_AHEAD:
        return ""
    return (
        f"the newest commit of {name} is stamped {stamped:%Y-%m-%d %H:%M:%S} UTC, over a minute after this machine's "
        f"clock ({now:%H:%M:%S}); its rows are read once the clock has reached that time"
    )
