"""The rate limit of the next epoch, from the barrier log and the upstream; :mod:`.core.auto_rate` has the rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_backfill_provider.core.epoch.auto_rate import ChunkBounds, limit_in_force, measured_epochs
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.held_up import held_up_before, raised
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.job.rate_limit import AUTO, ChosenLimit, PinnedRate, RateLimit
from airflow_backfill_provider.core.scan.file_statistics import mean_row_bytes
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.status.speed import RECENT_EPOCHS
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.state.store import BackfillStore


@dataclass(frozen=True, slots=True)
class NextLimit:
    """
    The rate limit of the next epoch.

    :param chosen: the limit, and why.
    :param row_bytes: the estimated size of a row in the upstream's files; ``None`` if unknown, or if it was not needed.
    """

    chosen: ChosenLimit
    row_bytes: float | None = None

    @property
    def rows(self) -> int | None:
        """Snapshot rows; ``None`` is unlimited, 0 reads none."""
        return self.chosen.rows

    def pinned(self, asked: RateLimit) -> PinnedRate | None:
        """
        Return what the barrier records of the choice; ``None`` if the limit is what the settings ask for.

        :param asked: the rate limit in the settings.
        """
        if not self.chosen.reason:
            return None
        return PinnedRate(asked=asked, reason=self.chosen.reason, row_bytes=self.row_bytes)


def next_limit(
    settings: JobSettings,
    previous: Barrier | None,
    newest: Offset,
    *,
    store: BackfillStore,
    upstream: Source,
    completed: bool = False,
    changes: Sequence[JobSettings] = (),
) -> NextLimit:
    """
    Return the rate limit of the next epoch; the log and the upstream are read only if it follows from them.

    :param previous: the newest barrier of the incarnation, which is committed.
    :param newest: the upstream's newest offset.
    :param completed: whether every vnode is Completed, so that no epoch reads history.
    :param changes: the settings' records since the previous barrier.
    """
    found = _asked_limit(settings, previous, newest, store=store, upstream=upstream, completed=completed)
    if completed:
        return found
    return NextLimit(raised(found.chosen, held_up_before(previous, changes)), found.row_bytes)


def _asked_limit(
    settings: JobSettings,
    previous: Barrier | None,
    newest: Offset,
    *,
    store: BackfillStore,
    upstream: Source,
    completed: bool,
) -> NextLimit:
    """Return the limit that the settings ask for, from the measured speed if that decides."""
    asked = settings.rate
    if not asked.is_auto:
        return NextLimit(limit_in_force(asked, (), ChunkBounds()))
    before = previous.rate if previous is not None and previous.rate and previous.rate.asked == AUTO else None
    held = previous.rate_limit if previous is not None and before else None
    if completed:
        return NextLimit(limit_in_force(asked, (), ChunkBounds(held=held)), before.row_bytes if before else None)
    # A row's size changes little, so it is looked up once.
    row_bytes = before.row_bytes if before else mean_row_bytes(upstream.blocks(newest, settings.key_order))
    barriers, commits = store.log(since_epoch=max(previous.epoch - RECENT_EPOCHS, 0)) if previous else ([], [])
    measured = measured_epochs(
        [barrier for barrier in barriers if barrier.incarnation == settings.incarnation],
        [commit for commit in commits if commit.incarnation == settings.incarnation],
        parallelism=settings.parallelism,
    )
    load = measured[-1].load if measured else None
    outlook = ChunkBounds(
        held=held,
        row_bytes=row_bytes,
        readable_for=upstream.changes_kept_for(),
        memory_bytes=load.memory_bytes if load else None,
    )
    return NextLimit(limit_in_force(asked, measured, outlook), row_bytes)
