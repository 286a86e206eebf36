"""Whether a job needs another epoch, and why: what a run is started for when no clock says so."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from airflow_backfill_provider.core.barrier import Barrier
from airflow_backfill_provider.core.epoch_record import EpochCommit
from airflow_backfill_provider.core.offset import BEGINNING, Offset
from airflow_backfill_provider.core.settings import JobSettings


@dataclass(frozen=True, slots=True)
class Demand:
    """
    The need for an epoch.

    :param key: the same as long as it is the same need, so that it is told once.
    :param reason: in words.
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
) -> Demand | None:
    """
    Return what a job needs an epoch for, ``None`` if for nothing.

    A new version of the upstream always does, and so does an upstream that was replaced: the epoch refuses it, so that
    somebody hears of it. What is left of the snapshot does only while no epoch is under way: its
    commit asks for the next one.

    What was given up asks for no epoch by itself, for it would fail again at once: a newer version of the upstream
    does, or a change of the settings.

    :param settings: those in force; ``None`` before the job is created.
    :param newest: the newest barrier of the job's incarnation.
    :param commit: the commit of that barrier's epoch.
    :param latest: the upstream's newest offset.
    :param replaced: how its log gives away that it is not the one which the job has read; empty if it doesn't.
    """
    if settings is None:
        return Demand(("version", "", latest), "the job is not created yet")
    if settings.cancelled:
        return None
    if replaced:
        return Demand(("replaced", settings.incarnation, latest), replaced)
    covered = newest.upstream.to_offset if newest else settings.first_offset
    given_up = newest.given_up if newest else None
    if latest > max(covered, given_up.to_offset if given_up else BEGINNING):
        reason = f"the upstream has version {latest}, and epochs cover those up to {covered}"
        # The run that creates the job was told of the version already.
        just_created = newest is None and settings.sequence == 1
        return Demand(("version", "" if just_created else settings.incarnation, latest), reason)
    waits = given_up is not None and settings.sequence <= given_up.settings_sequence
    if (newest is not None and commit is None) or waits:
        return None
    return _of_what_is_left(settings, newest, commit)


def _of_what_is_left(settings: JobSettings, newest: Barrier | None, commit: EpochCommit | None) -> Demand | None:
    """Return what needs an epoch although the upstream has nothing new; a change of the settings asks again."""
    since = (settings.incarnation, newest.epoch if newest else settings.base_epoch, settings.sequence)
    if settings.repair_sequence > (newest.settings_sequence if newest else 0):
        return Demand(("repair", *since), "a repair waits for an epoch")
    if settings.reads_snapshot and not (commit is not None and commit.completed):
        return Demand(("snapshot", *since), "the snapshot has rows that are not read yet")
    return None
