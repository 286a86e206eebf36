"""
What waits for an approval before it goes live: a first backfill, a rebuild beside the view, or a changed query.

What waits, and whether it is ready, is derived from the settings, the state and the barrier log each time. An approval
is a record of the settings. The next request for a barrier finds it, and goes on from there.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from airflow_backfill_provider.core.clock import Clock, utc_now
from airflow_backfill_provider.core.epoch.approvals import (
    as_proposed,
    backfill_of,
    change_of,
    is_approved,
    rebuild_of,
)
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.core.epoch.settings import JobSettings, SettingsChange
from airflow_backfill_provider.core.errors import InvalidJobError, NotFinishedError
from airflow_backfill_provider.core.job.cut_over import ApprovedCutOver, CutOverKind, CutOverSubject
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.status.cut_over import CutOverStatus
from airflow_backfill_provider.core.status.view_difference import ViewDifference
from airflow_backfill_provider.jobs.successor_tables import delete_unused, store_of
from airflow_backfill_provider.state.store import BackfillStore


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingCutOver:
    """
    What waits, or will wait once it is ready.

    :param subject: the definition and the incarnation that an approval is about.
    :param definition: the definition that goes live.
    :param settings: the settings of what waits: of the job, or of the rebuild beside its view.
    :param store: the control tables of what waits.
    :param since: since when it is ready; ``None`` as long as it is not.
    """

    subject: CutOverSubject
    definition: BackfillJob
    settings: JobSettings
    store: BackfillStore
    since: dt.datetime | None

    @property
    def status(self) -> CutOverStatus | None:
        """What a job's status says of it; ``None`` as long as it is not ready."""
        if self.since is None:
            return None
        # Nothing serves in place of a first backfill, so it is never given up.
        timeout = None if self.subject.kind is CutOverKind.BACKFILL else self.definition.cut_over_timeout
        return CutOverStatus(
            kind=self.subject.kind,
            ready_since=self.since,
            given_up_at=None if timeout is None else self.since + timeout,
        )


def waiting_of(store: BackfillStore, settings: JobSettings) -> WaitingCutOver | None:
    """
    Return what needs an approval that nobody has given; ``None`` if nothing does.

    :param settings: the job's settings in force.
    """
    if settings.cancelled:
        return None
    if settings.proposed is not None and (changed := change_of(settings)) is not None:
        latter = as_proposed(settings)
        since = settings.proposed.proposed_at
        return WaitingCutOver(subject=changed, definition=latter.definition, settings=latter, store=store, since=since)
    if settings.successor is None:
        return _unless_approved(backfill_of(settings), settings, settings.definition, settings, store)
    theirs, latter_job = store_of(settings.successor, store), BackfillJob(**settings.successor.job)
    if not latter_job.waits_for_approval or not theirs.created():
        return None
    grown = theirs.settings()
    return _unless_approved(rebuild_of(settings, grown.incarnation), settings, latter_job, grown, theirs)


def _unless_approved(
    subject: CutOverSubject | None,
    asked: JobSettings,
    definition: BackfillJob,
    waiting: JobSettings,
    store: BackfillStore,
) -> WaitingCutOver | None:
    """
    Return what waits, unless it is approved.

    :param asked: the settings that have the approval.
    :param waiting: the settings of what waits.
    :param store: its control tables.
    """
    if subject is None or is_approved(asked, subject):
        return None
    complete = next(completed_commits(store, waiting), None)
    since = None if complete is None else complete.committed_at
    return WaitingCutOver(subject=subject, definition=definition, settings=waiting, store=store, since=since)


def completed_commits(store: BackfillStore, settings: JobSettings) -> Iterator[EpochCommit]:
    """
    Yield the commits of an incarnation with every vnode Completed, from the first one on.

    The state may be Completed before: a view that takes another's place begins with all rows.
    """
    state = store.state_of(settings)
    if state.completed:
        for commit in store.commits(since_epoch=state.epoch):
            if commit.completed and commit.incarnation == settings.incarnation:
                yield commit


def is_released(store: BackfillStore, settings: JobSettings) -> bool:
    """Return whether the rebuild beside a view may take its place, as far as approvals go."""
    waiting = waiting_of(store, settings)
    return waiting is None or waiting.subject.kind is not CutOverKind.REBUILD


def cut_over_status(store: BackfillStore, settings: JobSettings) -> CutOverStatus | None:
    """Return what is ready and waits for an approval; ``None`` if nothing does."""
    waiting = waiting_of(store, settings)
    return None if waiting is None else waiting.status


def require_ready(store: BackfillStore, settings: JobSettings) -> WaitingCutOver:
    """
    Return what is ready and waits for an approval.

    :raises InvalidJobError: if nothing waits for one.
    :raises NotFinishedError: if it is not ready yet.
    """
    waiting = waiting_of(store, settings)
    name = settings.job["name"]
    if waiting is None:
        done = settings.approved
        by = "" if done is None else f"; the newest approval is by {done.approved_by}, of {done.subject.kind.words}"
        raise InvalidJobError(
            f"job {name}: nothing waits for an approval{by}. With cut_over: on_approval in its definition, a first "
            "backfill, a rebuild with --keep-serving and a change do"
        )
    if waiting.since is None:
        raise NotFinishedError(
            f"job {name}: {waiting.subject.kind.words} is not complete yet, so there is nothing to compare or to "
            "approve; run more epochs"
        )
    return waiting


def approve(
    difference: ViewDifference, *, store: BackfillStore, approved_by: str, clock: Clock = utc_now
) -> JobSettings:
    """
    Approve a cut-over whose difference was shown. Does nothing if it is approved already.

    A rebuild takes the view's place with the next epochs, a changed query takes effect with the next epoch, and a first
    backfill is marked as finished by the next epoch.

    :param difference: what was shown.
    :returns: the settings in force.
    :raises InvalidJobError: if nothing waits, or what waits is of another definition or incarnation by now.
    :raises NotFinishedError: if it is not ready.
    :raises ConcurrentUpdateError: if the settings changed meanwhile.
    """
    before = store.settings()
    if waiting_of(store, before) is None and is_approved(before, difference.subject):
        return before
    require_same(require_ready(store, before), difference)
    approved = ApprovedCutOver(
        subject=difference.subject,
        difference=difference.number,
        versions=difference.sides.model_dump(mode="json"),
        approved_by=approved_by,
        approved_at=clock(),
    )

    def change(settings: JobSettings) -> JobSettings:
        settings.require_unchanged(before)
        asked: dict[str, Any] = {"requested_by": approved_by, "requested_at": approved.approved_at}
        if settings.proposed is None:
            return settings.changed(SettingsChange.APPROVE, **asked, approved=approved)
        # The record that changes the query is its approval: after it, nothing waits.
        return as_proposed(settings).changed(SettingsChange.CHANGE, **asked, approved=approved)

    return store.change_settings(change)


def require_same(waiting: WaitingCutOver, difference: ViewDifference) -> None:
    """
    Refuse a difference of something else than what waits.

    :raises InvalidJobError: with what changed.
    """
    ours, theirs = waiting.subject, difference.subject
    if ours == theirs:
        return
    what = "proposal"
    if ours.incarnation != theirs.incarnation:
        what = "rebuild"
    elif ours.definition != theirs.definition:
        what = "definition"
    raise InvalidJobError(
        f"job {difference.job}: difference {difference.number} is of another {what} than the one that waits now; look "
        "at the difference again: airflow-backfill diff"
    )


def give_up_overdue(store: BackfillStore, settings: JobSettings, *, requested_by: str, now: dt.datetime) -> bool:
    """
    Give up what waited longer for an approval than its definition says; the view that serves stays as it is.

    :param settings: the settings in force.
    :returns: whether the settings changed.
    """
    status = cut_over_status(store, settings)
    if status is None or status.given_up_at is None or now < status.given_up_at:
        return False

    def change(current: JobSettings) -> JobSettings | None:
        if current.sequence != settings.sequence:
            return None
        return current.changed(
            SettingsChange.GIVE_UP_CUT_OVER,
            requested_by=requested_by,
            requested_at=now,
            successor=None,
            proposed=None,
        )

    store.change_settings(change)
    delete_unused(store)
    return True
