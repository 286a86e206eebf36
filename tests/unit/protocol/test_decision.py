"""Deciding what the next epoch does: from values alone, so no table is written here."""

from __future__ import annotations

import datetime as dt

import pytest

from airflow_backfill_provider.core.epoch.barrier import Mutation, PinnedRange, PinnedRead
from airflow_backfill_provider.core.epoch.failures import GivenUp
from airflow_backfill_provider.core.epoch.repair import PARTIAL_REPAIR, Repair
from airflow_backfill_provider.core.epoch.settings import SettingsChange
from airflow_backfill_provider.core.errors import StateError
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.core.scan.keys import KeyRange
from airflow_backfill_provider.core.scan.next_chunk import ChunkPart
from airflow_backfill_provider.core.scan.offset import HistoryPoint, Offset
from airflow_backfill_provider.core.scan.progress import Completed, InProgress, NotStarted
from airflow_backfill_provider.jobs.rate import NextLimit
from airflow_backfill_provider.protocol.decision import (
    EpochInputs,
    decide_epoch,
    depends_on_changes,
    idle_commit,
    next_barrier,
    why_idle,
)
from airflow_backfill_provider.protocol.rewrite import FormerState
from airflow_backfill_provider.strategies.base import NextChunk
from tests.builders import NOW, barrier_of, commit_of, job_of, settings_of, window_of
from tests.unit.strategies.scan_states import state_of

WHO = Requester(user="vera")
FIRST, NEXT, LAST = KeyRange(None, (5,)), KeyRange((5,), (9,)), KeyRange((5,), None)
NOTHING = NextChunk(1000)
AT_5 = InProgress((5,), 100)


def chunk_of(*ranges, warnings=()):
    part = ChunkPart(
        ranges=ranges, rows=9, completes=False, scanned_files=1, scanned_rows=9, scanned_bytes=9, warnings=warnings
    )
    return NextChunk(1000, parts=(part,))


def begun(*, visibility="every_epoch", **changes):
    """A job after its first epoch, which read up to 5 as of version 3."""
    settings = settings_of(job_of(visibility=visibility, strategy="no_shuffle"), rate_limit=100)
    previous = barrier_of(1, read_before=(), parts=(), upstream=window_of(-1, 3))
    facts = {
        "history": [settings],
        "state": state_of(*[AT_5] * 4, epoch=1),
        "previous": previous,
        "commit": commit_of(previous, rows_read=100),
        "last_epoch": 1,
    }
    return EpochInputs(**{**facts, **changes})


def fresh(**changes):
    """A job before its first epoch."""
    settings = settings_of(rate_limit=100)
    state = settings.scan.initial(0)
    return EpochInputs(
        **{"history": [settings], "state": state, "previous": None, "commit": None, "last_epoch": 0} | changes
    )


def planned(inputs, chunk=NOTHING, *, may_wait=False, offset=7):
    limit = NextLimit(inputs.settings.rate.fixed)
    return decide_epoch(inputs, chunk, Offset(offset), may_wait=may_wait, limit=limit)


# --- what is known --------------------------------------------------------------------------------


def test_a_first_window_begins_where_the_job_was_created():
    start = HistoryPoint(offset=4, mark="m")
    inputs = fresh(history=[settings_of(start=start, strategy="arrangement")])
    assert (inputs.from_offset, inputs.reached_point, inputs.oldest_offset) == (Offset(4), start, Offset(4))
    assert (inputs.read_before, inputs.read_as_of) == ((), ())


def test_a_window_begins_where_the_one_before_ended():
    """I1."""
    inputs = begun()
    assert (inputs.from_offset, inputs.reached_point.offset, inputs.oldest_offset) == (Offset(3), Offset(3), Offset(3))
    assert inputs.read_before == (FIRST,)
    assert inputs.read_as_of == ()


def test_rows_with_waiting_changes_are_as_of_the_offset_at_which_they_were_read():
    waiting = barrier_of(1, publishes=False, upstream=window_of(2, 3))
    inputs = begun(previous=waiting)
    assert [read.offset.number for read in inputs.read_as_of] == [2, 3]
    assert (inputs.oldest_offset, inputs.from_offset) == (Offset(2), Offset(3))


@pytest.mark.parametrize("strategy", ["no_shuffle", "arrangement"])
@pytest.mark.parametrize(("given_up", "offset"), [(False, Offset(3)), (True, None)])
def test_the_next_chunk_may_rest_at_the_offset_of_the_newest_one(strategy, given_up, offset):
    """A chunk that was given up would fail there again."""
    why = GivenUp(error="E", message="m", by="x", at=NOW, to_offset=3, settings_sequence=1) if given_up else None
    inputs = begun(
        history=[settings_of(strategy=strategy)],
        previous=barrier_of(1, publishes=False, upstream=window_of(2, 3), given_up=why),
    )
    assert inputs.resting_offset == offset


@pytest.mark.parametrize(("strategy", "offset"), [("no_shuffle", None), ("arrangement", 3)])
def test_before_anything_was_read_a_chunk_rests_only_where_a_table_holds_it(strategy, offset):
    nothing = barrier_of(1, read_before=(), parts=(), upstream=window_of(2, 3))
    resting = begun(history=[settings_of(strategy=strategy)], previous=nothing).resting_offset
    assert resting == (None if offset is None else Offset(offset))


def test_the_first_chunk_of_an_arrangement_rests_where_it_was_made():
    start = HistoryPoint(offset=4, mark="m")
    assert fresh(history=[settings_of(start=start, strategy="arrangement")]).resting_offset == Offset(4)
    assert fresh().resting_offset is None


def record(sequence, change, **fields):
    return settings_of(sequence=sequence, change=change, requested_at=NOW + dt.timedelta(minutes=sequence), **fields)


def test_new_records_are_those_that_no_barrier_of_the_incarnation_has():
    history = [
        record(1, SettingsChange.CREATE),
        record(2, SettingsChange.REPAIR, incarnation="a0", repair=Repair(vnodes=(0,))),
        record(3, SettingsChange.REPAIR, repair=Repair(vnodes=(3,))),
        record(4, SettingsChange.REPAIR, repair=Repair(vnodes=(1,), keys=(("7",),))),
        record(5, SettingsChange.PAUSE, paused=True),
    ]
    inputs = begun(history=history)
    assert [new.sequence for new in inputs.new_records] == [3, 4, 5]
    assert inputs.rewrite.repair == Repair(vnodes=(1, 3), keys=(("7",),))
    assert inputs.settings.paused


# --- what is refused ------------------------------------------------------------------------------


def test_the_state_that_the_last_epoch_left_is_accepted():
    begun().require_state(1, "/state")
    fresh().require_state(0, "/state")


def test_a_state_of_an_epoch_that_is_pinned_meanwhile_is_accepted():
    begun(state=state_of(*[AT_5] * 4, epoch=2)).require_state(2, "/state")


def test_a_state_after_the_end_of_the_log_is_refused():
    """I6: the log was restored from an older copy."""
    with pytest.raises(StateError, match="state at /state is of epoch 2, but the barrier log ends with epoch 1"):
        begun(state=state_of(*[AT_5] * 4, epoch=2)).require_state(1, "/state")


@pytest.mark.parametrize(
    "state",
    [
        state_of(*[AT_5] * 4, epoch=0),
        state_of(*[InProgress((5,), 99)] * 4, epoch=1),
        state_of(*[NotStarted()] * 4, epoch=1),
    ],
)
def test_a_state_from_before_the_last_epoch_is_refused(state):
    """I1: going on from it would read rows twice."""
    with pytest.raises(StateError, match=r"epoch 1 left 100 as of epoch 1; it was restored or changed"):
        begun(state=state).require_state(1, "/state")


def test_a_state_that_is_not_completed_although_the_epoch_completed_it_is_refused():
    inputs = begun()
    completed = inputs.commit.model_copy(update={"completed": True})
    with pytest.raises(StateError, match="it was restored or changed"):
        begun(commit=completed).require_state(1, "/state")
    begun(commit=completed, state=state_of(*[Completed((5,), 100)] * 4, epoch=1)).require_state(1, "/state")


# --- what the epoch does --------------------------------------------------------------------------


@pytest.mark.parametrize(("chunk", "completes"), [(NOTHING, False), (chunk_of(NEXT), False), (chunk_of(LAST), True)])
def test_an_epoch_completes_with_the_chunk_after_which_nothing_is_left(chunk, completes):
    assert begun().completes(chunk) is completes
    assert planned(begun(), chunk).completes is completes


@pytest.mark.parametrize(("visibility", "could_wait"), [("every_epoch", False), ("on_finish", True)])
def test_changes_can_wait_only_if_the_view_is_published_when_it_is_finished(visibility, could_wait):
    assert begun(visibility=visibility).could_wait is could_wait


@pytest.mark.parametrize(
    "changes",
    [
        {"state": state_of(*[NotStarted()] * 4)},
        {"state": state_of(*[Completed((5,), 100)] * 4, epoch=1)},
    ],
)
def test_changes_of_nothing_and_of_a_finished_view_do_not_wait(changes):
    assert not begun(visibility="on_finish", **changes).could_wait


def test_changes_do_not_wait_in_an_epoch_with_a_repair():
    settings = begun(visibility="on_finish").settings
    repair = settings.model_copy(update={"sequence": 2, "repair": Repair(vnodes=(1,)), "change": SettingsChange.REPAIR})
    assert not begun(history=[settings, repair]).could_wait


def test_an_epoch_that_may_wait_waits_unless_it_completes():
    inputs = begun(previous=barrier_of(1, publishes=False, upstream=window_of(2, 3)))
    waits, completes = planned(inputs, chunk_of(NEXT), may_wait=True), planned(inputs, chunk_of(LAST), may_wait=True)
    assert (waits.waits, waits.changes_after, waits.needs_changes) == (True, Offset(3), False)
    assert (completes.waits, completes.changes_after, completes.needs_changes) == (False, Offset(2), True)


def test_an_arrangement_without_a_read_row_does_not_wait_in_an_epoch_without_a_chunk():
    """I1: nothing would tell which offset it is as of."""
    settings = settings_of(strategy="arrangement")
    nothing = planned(fresh(history=[settings], state=settings.scan.initial(0)), may_wait=True, offset=-1)
    assert (nothing.waits, nothing.needs_changes) == (False, True)


@pytest.mark.parametrize(("offset", "waits"), [(3, True), (7, False)])
def test_an_arrangement_waits_only_if_its_chunk_is_read_as_of_the_one_before(offset, waits):
    """I1: while changes wait it gets none, so it would not have the newer rows."""
    inputs = begun(
        history=[settings_of(strategy="arrangement")],
        previous=barrier_of(1, publishes=False, upstream=window_of(2, 3)),
    )
    decided = planned(inputs, may_wait=True, offset=offset)
    assert (decided.waits, decided.needs_changes) == (waits, not waits)


@pytest.mark.parametrize(
    ("strategy", "read", "needs"),
    [("no_shuffle", False, False), ("no_shuffle", True, True), ("arrangement", False, True)],
)
def test_changes_are_written_of_rows_that_were_read_and_kept_for_an_arrangement(strategy, read, needs):
    settings = settings_of(strategy=strategy)
    state = state_of(*[AT_5] * 4) if read else settings.scan.initial(0)
    assert planned(fresh(history=[settings], state=state)).needs_changes is needs


# --- what it does not -----------------------------------------------------------------------------


def test_an_epoch_with_a_chunk_has_something_to_do_whatever_changes():
    chunk = chunk_of(NEXT)
    assert why_idle(begun(), planned(begun(), chunk), has_changes=False) == ""
    assert not depends_on_changes(begun(), planned(begun(), chunk))
    assert why_idle(fresh(), planned(fresh(), NextChunk(1000, prepares=True)), has_changes=False) == ""


def test_an_epoch_without_a_chunk_depends_on_changes():
    inputs = begun(history=[settings_of(rate_limit=0)])
    assert depends_on_changes(inputs, planned(inputs))
    assert why_idle(inputs, planned(inputs), has_changes=True) == ""
    expected = "the rate limit is 0, and the upstream has no changes after offset 3"
    assert why_idle(inputs, planned(inputs), has_changes=False) == expected


@pytest.mark.parametrize(
    ("inputs", "may_wait", "why"),
    [
        (begun(history=[settings_of(paused=True)]), True, "paused, and changes of what was read wait until the view"),
        (fresh(history=[settings_of(paused=True)]), False, "paused, and nothing was read yet that could change"),
        (
            begun(state=state_of(*[Completed((5,), 100)] * 4, epoch=1)),
            False,
            "the upstream has no changes after offset 3",
        ),
    ],
)
def test_an_idle_epoch_says_why(inputs, may_wait, why):
    assert why_idle(inputs, planned(inputs, may_wait=may_wait), has_changes=False).startswith(why)


# --- the barrier and the commit -------------------------------------------------------------------


def test_a_barrier_pins_what_was_decided():
    history = [
        begun().settings,
        record(2, SettingsChange.THROTTLE, rate_limit=50),
        record(3, SettingsChange.REPAIR, rate_limit=50, repair=Repair(keys=(("7",),))),
    ]
    inputs = begun(history=history, last_epoch=4)
    window = window_of(3, 7)
    barrier = next_barrier(inputs, planned(inputs, chunk_of(NEXT, warnings=("w",))), window, requester=WHO, now=NOW)
    assert (barrier.epoch, barrier.prev_epoch, barrier.windows) == (5, 4, (window,))
    assert barrier.read_before == (PinnedRange(after=None, up_to=("5",)),)
    assert [part.ranges for part in barrier.parts] == [(PinnedRange(after=("5",), up_to=("9",)),)]
    assert (barrier.publishes, barrier.completes, barrier.older_offset) == (True, False, None)
    assert (barrier.rate_limit, barrier.settings_sequence) == (50, 3)
    assert [pinned.mutation for pinned in barrier.mutations] == [Mutation.THROTTLE, Mutation.REPAIR]
    assert (barrier.repair, barrier.warnings) == (Repair(keys=(("7",),)), ("w", PARTIAL_REPAIR))
    assert (barrier.injected_by, barrier.injected_at) == (WHO, NOW)
    assert barrier.definition == inputs.settings.definition_digest


def test_a_repair_of_all_vnodes_leaves_nothing_unchecked():
    history = [begun().settings, record(2, SettingsChange.REPAIR, repair=Repair(vnodes=(0, 1, 2, 3)))]
    inputs = begun(history=history)
    assert next_barrier(inputs, planned(inputs), window_of(3, 7), requester=WHO, now=NOW).warnings == ()


def test_a_repair_of_groups_whose_rows_are_gone_is_left_out_with_a_warning():
    """I6: if it was pinned, no epoch could carry it out, and none after it would run."""
    history = [begun().settings, record(2, SettingsChange.REPAIR, repair=Repair(vnodes=(0, 1, 2, 3)))]
    inputs = begun(history=history, former=FormerState(lost="offsets 0 to 4 are gone"))
    barrier = next_barrier(inputs, planned(inputs), window_of(3, 7), requester=WHO, now=NOW)
    assert (barrier.repair, barrier.settings_sequence) == (Repair(), 2)
    assert barrier.warnings == ("the repair that was asked for is left out: offsets 0 to 4 are gone",)


@pytest.mark.parametrize(("offset", "older"), [(7, None), (3, Offset(3))])
def test_a_chunk_that_is_read_before_the_windows_end_says_where(offset, older):
    inputs = begun(visibility="on_finish")
    decided = planned(inputs, chunk_of(NEXT), may_wait=True, offset=offset)
    barrier = next_barrier(inputs, decided, window_of(3, 7), requester=WHO, now=NOW)
    assert (barrier.publishes, barrier.older_offset) == (False, older)
    assert barrier.view_after[-1].offset == (older or Offset(7))
    without = next_barrier(inputs, planned(inputs, may_wait=True, offset=3), window_of(3, 7), requester=WHO, now=NOW)
    assert without.older_offset is None


def test_an_idle_epoch_commits_the_state_as_it_is():
    before = commit_of(barrier_of(1), view_version=9, rows_present=80)
    inputs = begun(commit=before)
    barrier = next_barrier(inputs, planned(inputs), window_of(3, 7), requester=WHO, now=NOW)
    commit = idle_commit(barrier, inputs, NOW)
    assert (commit.epoch, commit.digest, commit.committed_at) == (2, barrier.digest, NOW)
    assert (commit.snapshot_read_row_count, commit.upstream_output_row_count, commit.rows_read) == (0, 0, 100)
    assert (commit.state_epoch, commit.completed, commit.tables) == (1, False, before.tables)


def test_an_idle_epoch_after_a_gap_knows_no_versions():
    """Another incarnation's epoch lies in between, and this one must not go on from its versions."""
    inputs = begun(last_epoch=4)
    barrier = next_barrier(inputs, planned(inputs), window_of(3, 7), requester=WHO, now=NOW)
    assert idle_commit(barrier, inputs, NOW).tables is None


def test_ranges_that_were_read_at_several_offsets_are_pinned_with_them():
    inputs = begun(previous=barrier_of(1, publishes=False, upstream=window_of(2, 3)))
    barrier = next_barrier(inputs, planned(inputs), window_of(3, 7), requester=WHO, now=NOW)
    assert barrier.read_as_of == inputs.previous.view_after
    assert all(isinstance(read, PinnedRead) for read in barrier.read_as_of)
