"""Verifying a job: what is pinned, what is refused, and who does what was asked for. Rows are compared on Spark."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core import crash_points
from airflow_backfill_provider.core.barrier import Barrier
from airflow_backfill_provider.core.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import (
    BackfillError,
    ChangeFeedGapError,
    ConcurrentUpdateError,
    DataFileError,
    EpochFailedError,
    JobCancelledError,
    MaterializedViewError,
    NotVerifiedError,
    StateError,
    UpstreamReplacedError,
    VerificationFailedError,
    VersionGoneError,
    ViewDiffersError,
)
from airflow_backfill_provider.core.requester import Requester
from airflow_backfill_provider.protocol import creation, mutations
from airflow_backfill_provider.protocol.backfill import Backfill
from airflow_backfill_provider.state.store import BackfillStore
from airflow_backfill_provider.verification import repairs, verifier
from tests.builders import CHANGE_DATA_FEED, NOW, ORDERS, Orders, commit_of, job_of
from tests.plain_engine import CountingEngine, make

VERA = Requester(user="vera")


@pytest.fixture
def orders(lake):
    orders = Orders(lake)
    orders.add(*range(9))
    return orders


@pytest.fixture
def backfill(lake, orders):
    """A created job over nine orders, three an epoch."""
    backfill = Backfill(job_of(lake, rate_limit=3))
    make(backfill)
    return backfill


def epoch(backfill: Backfill) -> None:
    done = protocol.run_next_epoch(
        store=backfill.store, upstream=backfill.upstream, requester=VERA, engine=lambda _: CountingEngine()
    )
    assert done.commit is not None


def verify(backfill: Backfill, *missing: str, **arguments: Any):
    return verifier.verify_job(
        backfill, engine=lambda: CountingEngine([missing]), requester=VERA, anew=True, **arguments
    )


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
    """The state that the log is behind of is of another epoch; to compare the log's epoch with it would be wrong."""
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


def test_an_epoch_that_is_pinned_alone_does_not_count(backfill, orders):
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


def test_another_table_at_the_views_place_is_refused(backfill, lake):
    """I6: whatever it holds, it is not the view."""
    epoch(backfill)
    begun = verifier.begin_verification(backfill, requester=VERA)
    properties = DeltaTable(backfill.job.materialized_view).metadata().configuration
    DeltaTable.create(
        backfill.job.materialized_view,
        ORDERS,
        mode="overwrite",
        configuration={"backfill.job": "x"},
        raise_if_key_not_exists=False,
    )
    with pytest.raises(MaterializedViewError, match="is no longer the view of job paid_orders"):
        verifier.next_step(backfill, begun, CountingEngine())
    shutil.rmtree(backfill.job.materialized_view)
    DeltaTable.create(backfill.job.materialized_view, ORDERS, configuration=properties, raise_if_key_not_exists=False)
    with pytest.raises(MaterializedViewError, match="is no longer the view of job paid_orders"):
        verifier.next_step(backfill, begun, CountingEngine())


class Watching(CountingEngine):
    """Notes what it is asked to compare, and lets something happen before it does."""

    def __init__(self, meanwhile: Callable[[], object] = bool) -> None:
        super().__init__()
        self.meanwhile = meanwhile
        self.compared: list[tuple[int, Any]] = []

    def compare(self, settings: Any, pinned: Any, barrier: Any, vnodes: Any) -> Any:
        self.compared.append((barrier.epoch, vnodes))
        self.meanwhile()
        return super().compare(settings, pinned, barrier, vnodes)


def test_a_verification_that_died_goes_on_behind_the_steps_that_are_done(backfill):
    """Each with the barrier of the epoch that is verified, whatever was committed since."""
    epoch(backfill)

    def die(_: object) -> None:
        raise KeyboardInterrupt

    first, second = Watching(), Watching()
    with pytest.raises(KeyboardInterrupt):
        verifier.verify_job(backfill, engine=lambda: first, requester=VERA, steps=4, on_step=die)
    epoch(backfill)
    told: list[int] = []
    found = verifier.verify_job(
        backfill, engine=lambda: second, requester=VERA, steps=1, on_step=lambda step: told.append(len(step.compared))
    )
    assert (first.compared, second.compared) == ([(1, (0, 0))], [(1, (n, n)) for n in (1, 2, 3)])
    assert (told, found.pinned.number, found.finished) == ([2, 3, 4], 1, True)
    assert verifier.verify_job(backfill, engine=Watching, requester=VERA).pinned.number == 2, "that one is done"


def test_a_verification_in_between_is_the_newest_result_until_another_is_finished(backfill):
    epoch(backfill)
    done = verify(backfill)
    verifier.begin_verification(backfill, requester=VERA, anew=True)
    assert verifier.newest_result(backfill) == done
    verifier.begin_verification(backfill, requester=VERA, anew=True)
    assert [found.pinned.number for found in backfill.verifications.all()] == [3, 2, 1]


def test_who_waits_for_a_verification_gets_one_of_the_epoch_that_carries_it_out(backfill):
    """One that is half done compares an epoch from before anybody asked."""
    epoch(backfill)
    half = verifier.begin_verification(backfill, requester=VERA)
    verifier.ask_for_verification(backfill, requested_by="otto")
    epoch(backfill)
    found = verifier.carry_out_waiting(backfill, CountingEngine())
    assert found is not None
    assert (half.pinned.epoch, found.pinned.epoch, str(found.pinned.begun_by)) == (1, 2, "otto")


def test_a_step_for_so_many_rows_unless_it_is_said_otherwise(backfill, monkeypatch):
    epoch(backfill)
    monkeypatch.setattr("airflow_backfill_provider.core.verification.ROWS_PER_STEP", 4)
    assert len(verify(backfill).pinned.steps) == 3, "nine rows"
    assert len(verify(backfill, steps=2).pinned.steps) == 2
    watching = Watching()
    verifier.compare_now(backfill, watching)
    assert watching.compared == [(1, (0, 3))]


@pytest.mark.parametrize(
    ("query", "distribution_key", "by_key"),
    [
        ("SELECT id FROM upstream", ["amount"], True),
        ("SELECT id, amount AS a FROM upstream", ["amount"], False),
        ("SELECT id, amount + 0 AS amount FROM upstream", ["amount"], True),
        ("SELECT amount FROM upstream", ["id"], False),  # in a hidden column
    ],
)
def test_rows_are_told_by_vnode_if_the_view_has_what_vnodes_come_from(lake, orders, query, distribution_key, by_key):
    upstream = {"path": orders.path, "key": ["id"], "distribution_key": distribution_key}
    backfill = Backfill(job_of(lake, upstream=upstream, query=query))
    make(backfill)
    epoch(backfill)
    assert verifier.begin_verification(backfill, requester=VERA).pinned.by_key is by_key


def test_the_view_is_compared_as_the_epoch_left_it(backfill):
    """What a later one has written so far, and may not have committed, is not in it."""
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


def test_an_epoch_that_is_committed_while_one_looks_at_the_newest_is_looked_at_itself(backfill, monkeypatch):
    """Of one moment: the state of one epoch with the barrier of another would differ from any view."""
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


def test_epochs_that_are_committed_faster_than_one_looks_are_told_as_such(backfill, monkeypatch):
    epoch(backfill)
    commits = itertools.count()
    monkeypatch.setattr(verifier, "_newest_commit", lambda _: next(commits))
    with pytest.raises(ConcurrentUpdateError, match="are committed faster than they can be read; try again"):
        verifier.begin_verification(backfill, requester=VERA)


def test_a_job_that_is_rebuilt_while_one_looks_at_it_has_nothing_to_verify(backfill, monkeypatch):
    """I5: what was read before is of a view that is gone."""
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
    """Injectors that slept through a rebuild pin what nobody runs, and one without work commits it."""
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


def test_a_view_that_says_to_be_of_another_incarnation_is_not_compared(backfill):
    """I6: nothing is known of who wrote to it since, though it is the same table."""
    epoch(backfill)
    begun = verifier.begin_verification(backfill, requester=VERA)
    DeltaTable(backfill.job.materialized_view).alter.set_table_properties(
        {"backfill.incarnation": "another"}, raise_if_not_exists=False
    )
    watching = Watching()
    with pytest.raises(MaterializedViewError, match="is no longer the view of job paid_orders"):
        verifier.next_step(backfill, begun, watching)
    assert watching.compared == []


def test_a_view_that_is_another_by_the_time_it_was_compared_says_nothing_of_the_job(backfill):
    """I6."""
    epoch(backfill)

    def replace() -> None:
        shutil.rmtree(backfill.job.materialized_view)
        DeltaTable.create(backfill.job.materialized_view, ORDERS)

    with pytest.raises(MaterializedViewError):
        verifier.verify_job(backfill, engine=lambda: Watching(replace), requester=VERA)
    assert backfill.verifications.all()[0].compared == ()
    with pytest.raises(MaterializedViewError):
        verifier.begin_verification(backfill, requester=VERA, anew=True)


def test_an_upstream_that_is_replaced_while_it_is_compared_is_refused(backfill, orders):
    """I6: what was read of it says nothing of the table that the job was created on."""
    epoch(backfill)

    class Replacing(CountingEngine):
        def compare(self, *arguments: Any) -> Any:
            shutil.rmtree(orders.path)
            DeltaTable.create(orders.path, ORDERS, configuration=CHANGE_DATA_FEED)
            return super().compare(*arguments)

    with pytest.raises(UpstreamReplacedError):
        verifier.compare_now(backfill, Replacing())
    shutil.rmtree(orders.path)
    with pytest.raises(VerificationFailedError, match="the view cannot be verified"):
        verifier.compare_now(backfill, CountingEngine())


def test_a_comparison_that_nobody_asked_for_is_not_kept(backfill):
    epoch(backfill)
    found = verifier.compare_now(backfill, CountingEngine([["7"]]))
    assert ([key.key for key in found.keys], backfill.verifications.all()) == ([("7",)], [])


# --- versions that are gone -----------------------------------------------------------------------


class Forgetful(CountingEngine):
    """
    Cannot read an upstream's version any more.

    :param gone: the version.
    :param error: what it says of that.
    """

    def __init__(self, gone: int, error: BackfillError) -> None:
        super().__init__()
        self.gone, self.error = gone, error

    def compare(self, settings: Any, pinned: Any, *arguments: Any) -> Any:
        if pinned.upstream_version.number == self.gone:
            raise self.error
        return super().compare(settings, pinned, *arguments)


GONE = [VersionGoneError("version 0 is gone"), ChangeFeedGapError("log is gone"), DataFileError("file is gone")]


def resume(backfill: Backfill, engine: CountingEngine):
    return verifier.verify_job(backfill, engine=lambda: engine, requester=VERA, steps=2)


@pytest.mark.parametrize("error", GONE, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("steps_done", [0, 1])
def test_one_that_compares_what_is_gone_meanwhile_begins_anew(backfill, orders, error, steps_done, caplog):
    """It would fail for ever: what was pinned does not come back, and whoever resumes it did not choose it."""
    epoch(backfill)
    begun = verifier.begin_verification(backfill, requester=VERA, steps=2)
    for _ in range(steps_done):
        begun = verifier.next_step(backfill, begun, CountingEngine())
    orders.add(20)
    epoch(backfill)
    found = resume(backfill, Forgetful(0, error))
    assert (found.pinned.number, found.pinned.epoch, found.pinned.upstream_version.number, found.equal) == (
        2,
        2,
        1,
        True,
    )
    assert len(found.compared) == 2, "of the other versions nothing is taken over"
    (said,) = [record.getMessage() for record in caplog.records if "verification" in record.name]
    assert "verification 1 of job paid_orders, of epoch 1, can no longer be finished" in said
    assert said.endswith(f"of epoch 2: {error}")


@pytest.mark.parametrize("error", GONE, ids=lambda error: type(error).__name__)
def test_what_is_gone_at_the_newest_versions_too_is_an_error(backfill, error):
    epoch(backfill)
    verifier.begin_verification(backfill, requester=VERA, steps=2)
    for _ in range(2):
        with pytest.raises(type(error), match="is gone"):
            resume(backfill, Forgetful(0, error))
    assert len(backfill.verifications.all()) == 1


def test_one_that_is_begun_now_is_not_begun_twice(backfill, orders):
    epoch(backfill)
    verifier.begin_verification(backfill, requester=VERA, steps=2)
    orders.add(20)
    epoch(backfill)

    class NothingLeft(CountingEngine):
        def compare(self, *_: Any) -> Any:
            raise VersionGoneError("everything is gone")

    with pytest.raises(VersionGoneError):
        resume(backfill, NothingLeft())
    assert [found.pinned.epoch for found in backfill.verifications.all()] == [2, 1]


def test_other_failures_leave_it_to_be_resumed(backfill, orders):
    epoch(backfill)
    verifier.begin_verification(backfill, requester=VERA, steps=2)
    orders.add(20)
    epoch(backfill)
    with pytest.raises(VerificationFailedError):
        resume(backfill, Forgetful(0, VerificationFailedError("try again")))
    assert resume(backfill, CountingEngine()).pinned.number == 1


@pytest.mark.slow
def test_a_view_that_differs_is_refused_and_repaired(backfill):
    epoch(backfill)
    found = verify(backfill, "1")
    with pytest.raises(ViewDiffersError, match="as of epoch 1: 1 keys in 1 vnodes; repair the view"):
        verifier.require_equal(backfill, found)
    ran: list[int] = []
    redone = repairs.repair_what_differs(
        backfill, engine=CountingEngine, requester=VERA, on_epoch=lambda barrier: ran.append(barrier.epoch)
    )
    verifier.require_equal(backfill, redone)
    assert (ran, redone.pinned.epoch, redone.pinned.number) == ([2], 2, 2)
    assert backfill.store.pinned(2).repair.keys == (("1",),)


def test_what_was_asked_for_is_carried_out_once(backfill):
    assert verifier.carry_out_waiting(backfill, CountingEngine()) is None
    asked = verifier.ask_for_verification(backfill, requested_by="vera")
    assert verifier.ask_for_verification(backfill, requested_by="otto") == asked
    assert backfill.read().verification_waits
    epoch(backfill)
    found = verifier.carry_out_waiting(backfill, CountingEngine())
    assert found is not None
    assert (found.equal, found.pinned.epoch, str(found.pinned.begun_by)) == (True, 1, "vera")
    assert verifier.carry_out_waiting(backfill, CountingEngine()) is None
    summary = backfill.read().summary()
    assert (summary.verification_waits, summary.verified is not None and summary.verified.epoch) == (False, 1)


def test_of_a_cancelled_job_nothing_is_asked_any_more(backfill):
    epoch(backfill)
    verify(backfill)
    mutations.cancel_job(store=backfill.store, requested_by="vera")
    with pytest.raises(JobCancelledError):
        verifier.ask_for_verification(backfill, requested_by="vera")
    with pytest.raises(JobCancelledError):
        repairs.ask_for_repair(backfill, requested_by="vera")
    assert verify(backfill).equal


def test_a_repair_is_carried_behind_an_epoch_that_was_pinned_before_it_was_asked_for(backfill):
    """The pinned one does not know of it; and a view that differed is verified anew, not taken as it was."""
    epoch(backfill)
    verify(backfill, "1")
    protocol.inject_barrier(store=backfill.store, upstream=backfill.upstream, requester=Requester(user="otto"))
    ran: list[int] = []
    redone = repairs.repair_what_differs(
        backfill, engine=CountingEngine, requester=VERA, on_epoch=lambda barrier: ran.append(barrier.epoch)
    )
    assert (ran, redone.equal, redone.pinned.epoch) == ([2, 3], True, 3)
    assert [bool(backfill.store.pinned(number).repair) for number in (1, 2, 3)] == [False, False, True]


def test_a_task_run_that_pinned_an_epoch_before_redoes_what_differs_with_another(backfill):
    task = Requester(dag_id="d", run_id="r", task_id="t")
    epoch(backfill)
    protocol.run_next_epoch(
        store=backfill.store, upstream=backfill.upstream, requester=task, engine=lambda _: CountingEngine()
    )
    verify(backfill, "1")
    redone = repairs.repair_what_differs(backfill, engine=CountingEngine, requester=task)
    assert (redone.pinned.epoch, backfill.store.pinned(3).repair.keys) == (3, (("1",),))


def test_what_was_redone_is_verified_by_a_verification_that_began_afterwards(backfill):
    """One that is half done compares the view as it was."""
    epoch(backfill)
    verify(backfill, "1")
    half = verifier.begin_verification(backfill, requester=VERA, anew=True)
    redone = repairs.repair_what_differs(backfill, engine=CountingEngine, requester=VERA)
    assert (half.pinned.epoch, redone.pinned.epoch, redone.pinned.number) == (1, 2, 3)


def test_where_nothing_differs_nothing_is_redone(backfill):
    epoch(backfill)
    found = verify(backfill)
    assert repairs.ask_for_repair(backfill, requested_by="vera") is None
    assert repairs.repair_what_differs(backfill, engine=Watching, requester=VERA) == found
    assert (backfill.store.last_epoch(), backfill.settings().sequence) == (1, 1)


def test_what_differs_is_asked_for_by_vnode_where_keys_are_too_many(backfill, monkeypatch):
    epoch(backfill)
    verify(backfill, "1", "2")
    monkeypatch.setattr(verifier, "MOST_KEYS", 1)
    asked = repairs.ask_for_repair(backfill, requested_by="vera")
    assert asked is not None
    assert (len(asked.repair.vnodes) >= 1, asked.repair.keys) == (True, ())


def test_a_repair_that_no_epoch_carries_is_an_error_that_a_retry_helps(backfill, monkeypatch):
    epoch(backfill)
    verify(backfill, "1")
    nothing = protocol.Injection(None, reason="nothing to do")
    monkeypatch.setattr(protocol.EpochLoop, "step", lambda _: nothing)
    with pytest.raises(
        EpochFailedError, match="no epoch of job paid_orders carried out the repair that record 2 of its settings"
    ) as caught:
        repairs.repair_what_differs(backfill, engine=CountingEngine, requester=VERA)
    assert caught.value.retryable
