"""
What waits for an approval before it goes live: a first backfill, a rebuild beside the view, or a changed query.

What needs an approval follows from the settings. Whether it is ready is derived from the state and the barrier log, by
those who ask for that. An approval is a record of the settings. The next request for a barrier finds it, and goes on
from there.
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
    :param proposed_at: when a changed query was proposed; ``None`` of anything else.
    """

    subject: CutOverSubject
    definition: BackfillJob
    settings: JobSettings
    store: BackfillStore
    proposed_at: dt.datetime | None = None

    @property
    def timeout(self) -> dt.timedelta | None:
        """How long it waits; ``None`` for ever. Nothing serves in place of a first backfill, so that never ends."""
        return None if self.subject.kind is CutOverKind.BACKFILL else self.definition.cut_over_timeout

    def ready_since(self) -> dt.datetime | None:
        """Read since when it is ready; ``None`` as long as it is not. A changed query is ready at once."""
        if self.proposed_at is not None:
            return self.proposed_at
        complete = next(completed_commits(self.store, self.settings), None)
        return None if complete is None else complete.committed_at

    def status(self) -> CutOverStatus | None:
        """Read what a job's status says of it; ``None`` as long as it is not ready."""
        since = self.ready_since()
        if since is None:
            return None
        return CutOverStatus(
            kind=self.subject.kind,
            ready_since=since,
            given_up_at=None if self.timeout is None else since + self.timeout,
        )


def waiting_of(store: BackfillStore, settings: JobSettings) -> WaitingCutOver | None:
    """
    Return what needs an approval that nobody has given, ready or not; ``None`` if nothing does.

    :param settings: the job's settings in force.
    """
    if settings.cancelled:
        return None
    subject: CutOverSubject | None
    proposed_at: dt.datetime | None = None
    if settings.proposed is not None:
        subject, proposed_at = change_of(settings), settings.proposed.proposed_at
        theirs, waiting = store, as_proposed(settings)
        definition = waiting.definition
    elif settings.successor is not None:
        theirs, definition = store_of(settings.successor, store), BackfillJob(**settings.successor.job)
        if not definition.waits_for_approval or not theirs.created():
            return None
        waiting = theirs.settings()
        subject = rebuild_of(settings, waiting.incarnation)
    else:
        subject, theirs, definition, waiting = backfill_of(settings), store, settings.definition, settings
    if subject is None or is_approved(settings, subject):
        return None
    return WaitingCutOver(
        subject=subject, definition=definition, settings=waiting, store=theirs, proposed_at=proposed_at
    )


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


def cut_over_status(store: BackfillStore, settings: JobSettings) -> CutOverStatus | None:
    """Return what is ready and waits for an approval; ``None`` if nothing does."""
    waiting = waiting_of(store, settings)
    return None if waiting is None else waiting.status()


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
    if waiting.ready_since() is None:
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
    waiting = waiting_of(store, settings)
    status = None if waiting is None or waiting.timeout is None else waiting.status()
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
