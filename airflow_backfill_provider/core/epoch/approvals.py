"""What an approval in a job's settings lets go live; see :mod:`airflow_backfill_provider.core.job.cut_over`."""

from __future__ import annotations

from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.job.cut_over import CutOverKind, CutOverSubject
from airflow_backfill_provider.core.job.definition import BackfillJob


def is_approved(settings: JobSettings, subject: CutOverSubject) -> bool:
    """Return whether a cut-over is approved: this definition in this incarnation, whatever epochs came since."""
    return settings.approved is not None and settings.approved.subject == subject


def backfill_of(settings: JobSettings) -> CutOverSubject | None:
    """
    Return what goes live when a backfill is complete; ``None`` if it goes live without an approval.

    A view that begins with rows was adopted, has taken another's place or was put back. One that was finished stays
    so, whatever becomes of its definition.
    """
    job = settings.definition
    if not job.waits_for_approval or settings.first_rows is not None or settings.finished_epoch is not None:
        return None
    return CutOverSubject.of(CutOverKind.BACKFILL, settings.incarnation, job.definition())


def is_withheld(settings: JobSettings) -> bool:
    """Return whether a view that is complete is not marked as finished, because nobody has approved it."""
    subject = backfill_of(settings)
    return subject is not None and not is_approved(settings, subject)


def publishes_view(settings: JobSettings, commit: EpochCommit | None) -> bool:
    """Return whether a complete view that was withheld by its newest epoch can be marked as finished now."""
    return commit is not None and commit.completed and commit.withheld and not is_withheld(settings)


def rebuild_of(settings: JobSettings, incarnation: str) -> CutOverSubject | None:
    """
    Return what goes live when the rebuild beside a view is complete; ``None`` if it goes live without an approval.

    :param settings: the settings of the job whose view is served.
    :param incarnation: the incarnation of the rebuild.
    """
    if settings.successor is None or not (job := BackfillJob(**settings.successor.job)).waits_for_approval:
        return None
    return CutOverSubject.of(CutOverKind.REBUILD, incarnation, job.definition())


def is_released(settings: JobSettings, incarnation: str) -> bool:
    """
    Return whether the rebuild beside a view may take its place, as far as approvals go.

    :param settings: the settings of the job whose view is served.
    :param incarnation: the incarnation of the rebuild.
    """
    subject = rebuild_of(settings, incarnation)
    return subject is None or is_approved(settings, subject)


def change_of(settings: JobSettings) -> CutOverSubject | None:
    """Return the changed query that goes live once it is approved; ``None`` if there is none."""
    if settings.proposed is None:
        return None
    job = BackfillJob(**settings.proposed.fields["job"])
    return CutOverSubject.of(CutOverKind.CHANGE, settings.incarnation, job.definition(), settings.proposed.sequence)


def as_proposed(settings: JobSettings) -> JobSettings:
    """Return settings with the changed definition that waits for an approval, as they would be after it."""
    if settings.proposed is None:
        return settings
    return JobSettings.model_validate({**settings.model_dump(), **settings.proposed.fields, "proposed": None})
