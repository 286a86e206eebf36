"""
Where the windows of several upstreams end: at offsets that can be read together, as of one instant.

The instant is the one that the requester asks for, or else the clock's, read before any log. If the strategy ends the
window of the lead earlier, it is the time of that window's end; and as long as all windows wait where the job began,
they end there. A window never ends before its begin.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass

from airflow_backfill_provider.core.scan.offset import HistoryPoint, Offset
from airflow_backfill_provider.jobs.diamonds import ReadTogether, SeveralUpstreams
from airflow_backfill_provider.protocol.decision import EpochInputs
from airflow_backfill_provider.sources import open_source
from airflow_backfill_provider.sources.base import Source


def instant_of(inputs: EpochInputs, until: dt.datetime | None, now: dt.datetime) -> dt.datetime | None:
    """
    Return the instant to look at the upstreams as of; ``None`` for the newest offset of the only one.

    :param until: the instant that the requester asks for.
    """
    if not inputs.settings.others:
        return until
    # In the future, logs that are read one after the other would be as of different instants.
    return now if until is None else min(until, now)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowEnds:
    """
    Where the next windows of several upstreams may end.

    :param upstreams: the upstreams.
    :param asked: the instant that they are looked at as of.
    :param newest: the newest offsets that can be read together.
    """

    inputs: EpochInputs
    upstreams: SeveralUpstreams
    asked: dt.datetime
    newest: ReadTogether

    @classmethod
    def at(
        cls, inputs: EpochInputs, lead: Source, instant: dt.datetime, storage_options: Mapping[str, str] | None
    ) -> WindowEnds:
        """
        Look at the upstreams as of an instant.

        :raises UpstreamError: if one of them was replaced, or if what can be read together is older than what the logs
            of views keep.
        """
        definition = inputs.settings.definition
        others = {name: open_source(other, storage_options) for name, other in definition.others.items()}
        for name, source in others.items():
            source.refresh()
            if (reached := reached_point_of(inputs, name)) is not None:
                source.require_same_history(reached)
        since = {definition.lead_name: inputs.from_offset, **{name: begin_of(inputs, name) for name in others}}
        upstreams = SeveralUpstreams(
            {definition.lead_name: lead, **others}, since=since, storage_options=storage_options
        )
        newest = upstreams.as_of(instant) or ReadTogether(instant=instant, offsets=since, agrees=False)
        return cls(inputs=inputs, upstreams=upstreams, asked=instant, newest=newest)

    @property
    def of_lead(self) -> Offset:
        """The newest offset that the window of the lead may end at."""
        return self.newest.offsets[self.inputs.settings.definition.lead_name]

    def up_to(self, end: Offset) -> ReadTogether:
        """
        Return the ends of all windows.

        :param end: where the strategy ends the window of the lead.
        """
        settings, lead = self.inputs.settings, self.inputs.settings.definition.lead_name
        if self.inputs.strategy.ends_windows and not self.inputs.state.completed and end == settings.first_offset:
            return self._resting(lead, end)
        if end >= self.of_lead:
            return self.newest
        return self.upstreams.in_steps(self.asked, lead, end) or self.newest

    def _resting(self, lead: str, end: Offset) -> ReadTogether:
        """Return the ends while all windows wait where the job began."""
        committed_at = self.asked if end >= self.of_lead else self.upstreams.sources[lead].watermark(end)
        return ReadTogether(instant=min(self.asked, committed_at), offsets={**self.upstreams.since, lead: end})

    @property
    def waits_for(self) -> str:
        """Why the windows do not end later; empty if they end where the upstreams do."""
        held = self.upstreams.waits_for(self.asked, self.newest)
        return self.upstreams.told(held[0]) if held else ""


def reached_point_of(inputs: EpochInputs, name: str) -> HistoryPoint | None:
    """Return the point of the history of an upstream beside the lead that the job has reached."""
    before = None if inputs.previous is None else inputs.previous.window(name)
    return before.reached_point if before else inputs.settings.first_point_of(name)


def begin_of(inputs: EpochInputs, name: str) -> Offset:
    """Return the offset that the next window of an upstream beside the lead begins after."""
    if inputs.previous is not None:
        return inputs.previous.window(name).to_offset
    reached = inputs.settings.first_point_of(name)
    return inputs.settings.others[name].point.offset if reached is None else reached.offset
