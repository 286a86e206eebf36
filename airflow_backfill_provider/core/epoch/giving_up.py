"""Barriers of epochs that were given up, reduced to what was written."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from airflow_backfill_provider.core.epoch.barrier import Barrier, PinnedPart
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.core.epoch.failures import GivenUp
from airflow_backfill_provider.core.epoch.repair import Repair
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import EpochGivenUpError


def require_not_given_up(commit: EpochCommit | None, job: str) -> EpochCommit | None:
    """
    Return the commit of an epoch, if there is one.

    :raises EpochGivenUpError: if the epoch was given up, so that its rest is never written.
    """
    if commit is not None and commit.given_up:
        raise EpochGivenUpError(
            f"epoch {commit.epoch} of job {job} was given up because it could not be completed as pinned (the job's "
            "status says why); run the next epoch, which pins a new barrier"
        )
    return commit


def chunk_given_up(barrier: Barrier, written: Collection[int], *, why: GivenUp) -> Barrier:
    """
    Return the barrier of an epoch that applied its changes, but read only some parts of its chunk.

    :param written: the parts that were read.
    """
    parts = tuple(part for index, part in enumerate(barrier.parts) if index in written)
    return _without(barrier, parts, why=why)


def all_given_up(barrier: Barrier, *, previous: Barrier | None, settings: JobSettings, why: GivenUp) -> Barrier:
    """
    Return the barrier of an epoch that did nothing: its window is empty, and the next barrier repeats its mutations.

    :param previous: the previous barrier of the incarnation, if there is one.
    :param settings: the job's settings.
    """
    # A job that begins after a point of the upstream's history stays at this point.
    known: Sequence[dict[str, Any]] = (
        [{"mark": window.mark, "watermark": window.watermark} for window in previous.windows]
        if previous
        else [{"mark": _mark_at_start(settings, window.relation)} for window in barrier.windows]
    )
    nothing = _without(barrier, (), why=why)
    return nothing.model_copy(
        update={
            "windows": tuple(
                window.model_copy(update={"to_offset": window.from_offset, **before})
                for window, before in zip(barrier.windows, known, strict=True)
            ),
            "publishes": False,
            "repair": Repair(),
            "filter_change": None,
            "columns_change": None,
            "mutations": (),
            "settings_sequence": previous.settings_sequence if previous else 0,
        }
    )


def _mark_at_start(settings: JobSettings, relation: str) -> str | None:
    point = settings.first_point_of(relation)
    return None if point is None else point.mark


def _without(barrier: Barrier, parts: tuple[PinnedPart, ...], *, why: GivenUp) -> Barrier:
    return barrier.model_copy(
        update={
            "parts": parts,
            "older_offset": barrier.older_offset if parts else None,
            "given_up": why,
        }
    )
