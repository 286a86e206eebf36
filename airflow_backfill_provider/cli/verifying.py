"""Compares a view with its query, while no epoch writes to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.console import Console

from airflow_backfill_provider import text
from airflow_backfill_provider.backfill import Backfill
from airflow_backfill_provider.core.barrier import Barrier
from airflow_backfill_provider.core.errors import StateError

if TYPE_CHECKING:
    from airflow_backfill_provider.engine import SparkEngine


def verify_job(backfill: Backfill, engine: Callable[[], SparkEngine], console: Console) -> bool:
    """
    Compare, print what came out, and return whether view and query are equal.

    :raises StateError: if no epoch was committed yet.
    """
    _newest(backfill)
    verifier = engine()
    settings = backfill.require_created()
    with verifier.exclusive(settings):
        committed, pinned = _newest(backfill)
        found = verifier.verify(settings, committed)
    console.print(
        f"{backfill.job.name} as of epoch {committed.epoch}, upstream version {committed.upstream.to_version}: "
        f"{text.rows(found.expected_rows)} expected, {found.missing:,} missing, {found.unexpected:,} unexpected"
    )
    for row in found.sample:
        console.print(f"  {row}")
    if not found.equal and pinned is not None:
        console.print(
            f"epoch {pinned.epoch} is pinned but not committed, so the view may hold part of it; run the job and "
            "verify again"
        )
    return found.equal


def _newest(backfill: Backfill) -> tuple[Barrier, Barrier | None]:
    """Return the newest committed barrier, and the one pinned after it, if any."""
    settings, last = backfill.store.settings(), backfill.store.last_epoch()
    barriers, commits = backfill.store.log(since_epoch=max(last - 1, 0))
    committed_epochs = {commit.epoch for commit in commits if commit.incarnation == settings.incarnation}
    ours = [barrier for barrier in barriers if barrier.incarnation == settings.incarnation]
    committed = [barrier for barrier in ours if barrier.epoch in committed_epochs]
    if not committed:
        raise StateError(
            f"no epoch of job {backfill.job.name} was committed yet, so there is nothing to verify; run it"
        )
    return committed[-1], ours[-1] if ours[-1].epoch > committed[-1].epoch else None
