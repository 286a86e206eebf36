"""What is left of an epoch that was given up: what was written of it, and nothing of the rest."""

from __future__ import annotations

from collections.abc import Collection

from airflow_backfill_provider.core.barrier import Barrier, PinnedPart, Repair, UpstreamWindow
from airflow_backfill_provider.core.epoch_record import EpochCommit
from airflow_backfill_provider.core.errors import EpochGivenUpError
from airflow_backfill_provider.core.failures import GivenUp
from airflow_backfill_provider.core.settings import JobSettings


def require_done(commit: EpochCommit | None, job: str) -> EpochCommit | None:
    """
    Return the commit of an epoch, if there is one.

    :raises EpochGivenUpError: if the epoch was given up; then it will never be done.
    """
    if commit is not None and commit.given_up:
        raise EpochGivenUpError(
            f"epoch {commit.epoch} of job {job} was given up, for it could not be done as it was pinned (the job's "
            "status says why); run the next epoch, which is pinned anew"
        )
    return commit


def chunk_given_up(barrier: Barrier, written: Collection[int], *, why: GivenUp) -> Barrier:
    """
    Return an epoch that applied its changes and read no more of its chunk than some parts.

    :param written: the parts that it did read.
    """
    parts = tuple(part for index, part in enumerate(barrier.parts) if index in written)
    return _without(barrier, parts, why=why)


def all_given_up(barrier: Barrier, *, previous: Barrier | None, settings: JobSettings, why: GivenUp) -> Barrier:
    """
    Return an epoch that did nothing: its window did not move, and what it was the first to carry is asked again.

    :param previous: the barrier before it in its incarnation, if there is one.
    :param settings: the job's.
    """
    window = barrier.upstream
    known = previous.upstream.end if previous else settings.start
    # Of a window that ends before the first version, nobody asks when it ends.
    watermark = known.written_at if known and known.written_at else window.watermark
    nothing = _without(barrier, (), why=why)
    return nothing.model_copy(
        update={
            "upstream": UpstreamWindow(
                table_id=window.table_id,
                from_version=window.from_version,
                to_version=window.from_version,
                watermark=watermark,
                row_count=window.row_count,
            ),
            "publishes": False,
            "repair": Repair(),
            "mutations": (),
            "settings_sequence": previous.settings_sequence if previous else 0,
        }
    )


def _without(barrier: Barrier, parts: tuple[PinnedPart, ...], *, why: GivenUp) -> Barrier:
    return barrier.model_copy(
        update={
            "parts": parts,
            "older_version": barrier.older_version if parts else None,
            "given_up": why,
        }
    )
