"""
Which of a job's definitions its view has.

A changed query takes effect with the next barrier, like every change of the settings. Until then, and for an epoch that
was pinned before, the definition is that of the record that the barrier was pinned with. All else is as the newest
record has it.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.settings import JobSettings, SettingsChange

_DEFINITION = ("job", "strategy", "shape", "upstream", "view_columns")
"""The fields of the settings that a changed query changes."""


def settings_for(history: Sequence[JobSettings], barrier: Barrier) -> JobSettings:
    """
    Return the newest settings, with the definition that a barrier was pinned with.

    :param history: all records of the settings.
    :param barrier: a barrier; if it is of another incarnation than the newest settings, these are returned as they are.
    """
    newest = history[-1]
    record = record_of(history, barrier)
    if barrier.incarnation != newest.incarnation or record is None:
        return newest
    return newest.model_copy(update={name: getattr(record, name) for name in _DEFINITION})


def record_of(history: Sequence[JobSettings], barrier: Barrier) -> JobSettings | None:
    """Return the record of the settings that a barrier was pinned with; of one without, the incarnation's first."""
    records = [record for record in history if record.incarnation == barrier.incarnation]
    known = [record for record in records if record.sequence <= barrier.settings_sequence]
    return next(iter(known[-1:] or records[:1]), None)


def is_changed(records: Sequence[JobSettings]) -> bool:
    """Return whether any record of the settings changes the query."""
    return any(record.change is SettingsChange.CHANGE for record in records)
