"""Whether a job needs another epoch, and why. Event-driven DAGs start their runs by this, not by a clock."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from airflow_backfill_provider.core.epoch.approvals import publishes_view
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.scan.offset import BEGINNING, Offset


@dataclass(frozen=True, slots=True)
class Demand:
    """
    The need for an epoch.

    :param key: identifies the need, so that it is reported only once.
    :param reason: the reason as text.
    """

    key: Hashable
    reason: str


def demand_of(
    settings: JobSettings | None,
    newest: Barrier | None,
    commit: EpochCommit | None,
    latest: Offset,
    *,
    replaced: str = "",
    other: str | None = None,
) -> Demand | None:
    """
    Return why a job needs an epoch, or ``None`` if it needs none.

    A new offset of the upstream always needs an epoch. So does a replaced upstream: the epoch refuses it, and the
    refusal is reported. Unread snapshot rows need an epoch only while none is pinned, because the commit of a pinned
    epoch starts the next one.

    An epoch that was given up needs no new one by itself, because that would fail again at once. A newer offset of the
    upstream or a change of the settings does.

    :param settings: the settings in force; ``None`` before the job is created.
    :param newest: the newest barrier of the job's incarnation.
    :param commit: the commit of this barrier's epoch.
    :param latest: the upstream's newest offset.
    :param replaced: why the upstream is not the one that the job has read; empty if it is the same.
    :param other: the name of the upstream, if it is not the one that leads; then only its new offsets count, because
        everything else is asked about the lead.
    """
    if settings is None:
        return Demand(("version", "", latest), "the job is not created yet") if other is None else None
    if settings.cancelled:
        return None
    if replaced:
        return Demand(("replaced", settings.incarnation, latest), replaced)
    covered = _covered(settings, newest, other)
    given_up = newest.given_up if newest else None
    if latest > max(covered, given_up.to_offset if given_up and other is None else BEGINNING):
        read = "no epoch has read anything" if covered == BEGINNING else f"the epochs have read up to {covered}"
        reason = f"{other or 'the upstream'}'s newest offset is {latest}, and {read}"
        # The DAG run that created the job was started for this offset.
        just_created = newest is None and settings.sequence == 1
        return Demand(("version", "" if just_created else settings.incarnation, latest), reason)
    waits = given_up is not None and settings.sequence <= given_up.settings_sequence
    if (newest is not None and commit is None) or waits or other is not None:
        return None
    return _without_new_offsets(settings, newest, commit)


def _covered(settings: JobSettings, newest: Barrier | None, other: str | None) -> Offset:
    """Return the offset up to which the epochs have read an upstream."""
    if newest is not None:
        return newest.upstream.to_offset if other is None else newest.window(other).to_offset
    begun = settings.first_point if other is None else settings.first_point_of(other)
    return BEGINNING if begun is None else begun.offset


def _without_new_offsets(settings: JobSettings, newest: Barrier | None, commit: EpochCommit | None) -> Demand | None:
    """Return why the job needs an epoch although the upstream has no new offset; a change of settings renews it."""
    since = (settings.incarnation, newest.epoch if newest else settings.base_epoch, settings.sequence)
    if settings.repair_sequence > (newest.settings_sequence if newest else 0):
        return Demand(("repair", *since), "a repair is requested")
    if newest is None and settings.first_rows is not None:
        return Demand(("first rows", *since), "the view's first rows are not written yet")
    if settings.reads_snapshot and not (commit is not None and commit.completed):
        return Demand(("snapshot", *since), "the snapshot has unread rows")
    if publishes_view(settings, commit):
        return Demand(("approved", *since), "the view is approved and can be marked as finished")
    return None
