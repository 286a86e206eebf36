"""Which epoch a verification compares, also while others commit epochs or rebuild the job."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import (
    ConcurrentUpdateError,
    NotVerifiedError,
    StateError,
)
from airflow_backfill_provider.jobs import creation
from airflow_backfill_provider.jobs.verification import verifier
from airflow_backfill_provider.state.store import BackfillStore
from tests.builders import NOW, commit_of
from tests.plain_engine import CountingEngine, make
from tests.unit.jobs.verification.verifying import VERA, epoch, verify

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


def test_the_newest_committed_epoch_is_pinned(backfill, orders):
    epoch(backfill)
    orders.add(20)
    pinned = verifier.begin_verification(backfill, requester=VERA, clock=lambda: NOW, steps=2).pinned
    assert (pinned.number, pinned.epoch, pinned.upstream_version.number, pinned.begun_at) == (1, 1, 0, NOW)
    assert [(run.first, run.last, run.up_to) for run in pinned.read] == [(0, 3, ("2",))]
    assert (pinned.steps, pinned.by_key, pinned.begun_by) == (((0, 1), (2, 3)), False, VERA)
    epoch(backfill)
    assert verifier.begin_verification(backfill, requester=VERA).pinned == pinned
    assert verifier.begin_verification(backfill, requester=VERA, anew=True).pinned.upstream_version.number == 1


def test_an_epoch_whose_state_is_committed_counts_before_the_log_says_so(backfill, orders):
    """The state is one epoch later than the log. Comparing the log's epoch with it would be wrong."""
    epoch(backfill)
    orders.add(20)

    def die(point: CrashPoint) -> None:
        if point is CrashPoint.AFTER_STATE_COMMIT:
            raise KeyboardInterrupt

    crash_points.install(die)
    with pytest.raises(KeyboardInterrupt):
        epoch(backfill)
    assert backfill.store.commit_of(2) is None
    pinned = verify(backfill).pinned
    assert (pinned.epoch, pinned.upstream_version.number, pinned.read[0].up_to) == (2, 1, ("5",))


def test_an_epoch_that_left_the_state_as_it_was_counts(backfill, orders):
    """The view has its changes."""
    for _ in range(3):
        epoch(backfill)
    orders.change([0], amount=50)
    epoch(backfill)
    assert backfill.store.state().epoch == 3
    pinned = verify(backfill).pinned
    assert (pinned.epoch, pinned.upstream_version.number) == (4, 1)


def test_an_epoch_that_is_only_pinned_does_not_count(backfill, orders):
    epoch(backfill)
    orders.add(20)
    protocol.inject_barrier(store=backfill.store, upstream=backfill.upstream, requester=VERA)
    pinned = verify(backfill).pinned
    assert (pinned.epoch, pinned.upstream_version.number, pinned.read[0].up_to) == (1, 0, ("2",))


def test_before_the_first_epoch_and_after_a_rebuild_there_is_nothing_to_verify(backfill):
    with pytest.raises(NotVerifiedError, match="nothing to verify; run it"):
        verifier.begin_verification(backfill, requester=VERA)
    epoch(backfill)
    begun = verifier.begin_verification(backfill, requester=VERA)
    verify(backfill)
    make(backfill, creation.rebuild_job)
    with pytest.raises(NotVerifiedError, match="was not verified yet"):
        verifier.newest_result(backfill)
    with pytest.raises(StateError, match="was rebuilt while its view was being verified"):
        verifier.next_step(backfill, begun, CountingEngine())
    with pytest.raises(NotVerifiedError, match="nothing to verify; run it"):
        verifier.compare_now(backfill, CountingEngine())


def test_the_view_is_compared_as_the_epoch_left_it(backfill):
    """Rows of a later epoch that may not be committed are not compared."""
    epoch(backfill)
    view, incarnation = backfill.job.materialized_view, backfill.settings().incarnation
    for number in (1, 2):
        stamp = {"event": "epoch", "epoch": number, "incarnation": incarnation}
        write_deltalake(
            view,
            pa.table({"rows_are_only_counted": pa.array([number], pa.int64())}),
            mode="append",
            commit_properties=CommitProperties(custom_metadata={"userMetadata": json.dumps(stamp)}),
        )
    assert verifier.begin_verification(backfill, requester=VERA).pinned.view_version == 1


def test_an_epoch_that_is_committed_meanwhile_is_verified_instead(backfill, monkeypatch):
    """State and barrier must be of the same epoch, or no view would equal them."""
    epoch(backfill)
    look, left = BackfillStore.state_of, [1, 1]

    def state_of(store: BackfillStore, settings: Any) -> Any:
        state = look(store, settings)
        if left:
            left.pop()
            monkeypatch.setattr(BackfillStore, "state_of", look)
            epoch(backfill)
            monkeypatch.setattr(BackfillStore, "state_of", state_of)
        return state

    monkeypatch.setattr(BackfillStore, "state_of", state_of)
    pinned = verifier.begin_verification(backfill, requester=VERA).pinned
    assert (pinned.epoch, pinned.read[0].up_to) == (3, None)


def test_epochs_that_are_committed_too_fast_to_read_are_an_error(backfill, monkeypatch):
    epoch(backfill)
    commits = itertools.count()
    monkeypatch.setattr(verifier, "_newest_commit", lambda _: next(commits))
    with pytest.raises(ConcurrentUpdateError, match="are committed faster than they can be read; try again"):
        verifier.begin_verification(backfill, requester=VERA)


def test_a_job_that_is_rebuilt_meanwhile_has_nothing_to_verify(backfill, monkeypatch):
    """I5: the state that was read belongs to a view that is gone."""
    epoch(backfill)
    look = BackfillStore.state_of

    def state_of(store: BackfillStore, settings: Any) -> Any:
        state = look(store, settings)
        monkeypatch.setattr(BackfillStore, "state_of", look)
        make(backfill, creation.rebuild_job)
        return state

    monkeypatch.setattr(BackfillStore, "state_of", state_of)
    with pytest.raises(NotVerifiedError, match="nothing to verify; run it"):
        verifier.begin_verification(backfill, requester=VERA)


def test_epochs_of_an_earlier_incarnation_do_not_count_wherever_they_are_in_the_log(backfill, orders):
    """Injectors that slept through a rebuild pin barriers that are never run. One without work is committed."""
    epoch(backfill)
    old, store = backfill.store.pinned(1), backfill.store
    make(backfill, creation.rebuild_job)

    def pin_late() -> Barrier:
        last = store.last_epoch()
        return store.pin(old.model_copy(update={"epoch": last + 1, "prev_epoch": last}))

    late = pin_late()
    store.record_commit(late, commit_of(late))
    with pytest.raises(NotVerifiedError, match="nothing to verify; run it"):
        verifier.begin_verification(backfill, requester=VERA)
    for _ in range(3):
        epoch(backfill)
    orders.change([0], amount=50)
    epoch(backfill)
    for _ in range(3):
        pin_late()
    assert backfill.store.state().epoch == 5
    assert verifier.begin_verification(backfill, requester=VERA).pinned.epoch == 6
