"""Why a job needs an epoch, and which demands are the same."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.epoch.demand import demand_of
from airflow_backfill_provider.core.epoch.failures import GivenUp
from airflow_backfill_provider.core.job.succession import FirstRows
from airflow_backfill_provider.core.scan.offset import HistoryPoint, Offset
from tests.builders import NOW, barrier_of, commit_of, job_of, settings_of, window_of

FIRST = barrier_of(1, upstream=window_of(-1, 5))
UNFINISHED = commit_of(FIRST)
COMPLETED = commit_of(FIRST, completed=True)


def demand(settings, newest, commit, latest, **changes):
    return demand_of(settings, newest, commit, Offset(latest), **changes)


def reason_of(settings, newest, commit, latest):
    found = demand(settings, newest, commit, latest)
    return found and found.reason


def test_a_job_that_is_not_created_needs_its_first_run_once_per_version():
    assert reason_of(None, None, None, 5) == "the job is not created yet"
    assert demand(None, None, None, 5).key == demand(None, None, None, 5).key
    assert demand(None, None, None, 5).key != demand(None, None, None, 6).key


def test_a_job_that_was_just_created_has_the_demand_that_its_creation_was_for():
    assert demand(settings_of(), None, None, 5).key == demand(None, None, None, 5).key
    assert demand(settings_of(sequence=2), None, None, 5).key != demand(None, None, None, 5).key


def test_a_version_that_no_epoch_covers_always_needs_one():
    for settings in (settings_of(), settings_of(paused=True), settings_of(rate_limit=0), settings_of(finished_epoch=1)):
        for commit in (None, UNFINISHED, COMPLETED):
            assert "offset is 6" in reason_of(settings, FIRST, commit, 6)


@pytest.mark.parametrize("latest", [5, 4])
def test_a_finished_job_needs_nothing_for_a_version_that_an_epoch_covers(latest):
    assert demand(settings_of(finished_epoch=1), FIRST, COMPLETED, latest) is None
    assert demand(settings_of(), FIRST, COMPLETED, latest) is None, "finishing is the same run's business"


def test_an_unfinished_job_needs_the_next_epoch_once_the_last_one_is_committed():
    assert demand(settings_of(), FIRST, None, 5) is None, "one is under way"
    assert "snapshot" in reason_of(settings_of(), FIRST, UNFINISHED, 5)


def test_a_job_created_at_the_newest_version_still_needs_its_first_epoch():
    arranged = settings_of(strategy="arrangement", start=HistoryPoint(offset=5))

    assert "snapshot" in reason_of(arranged, None, None, 5)
    assert "offset is 5" in reason_of(settings_of(), None, None, 5)


@pytest.mark.parametrize("commit", [None, UNFINISHED, COMPLETED])
def test_a_replaced_upstream_needs_the_epoch_that_refuses_it_once_per_version(commit):
    """I6: no version is later than the one that the job has reached, so no other demand would lead to the refusal."""
    settings = settings_of(finished_epoch=1)
    found = demand(settings, FIRST, commit, 4, replaced="the log ends with version 4")
    assert found.reason == "the log ends with version 4"
    assert found.key == demand(settings, FIRST, commit, 4, replaced="the log ends with version 4").key
    assert found.key != demand(settings, FIRST, commit, 3, replaced="the log ends with version 3").key
    assert demand(settings_of(cancelled=True), FIRST, commit, 4, replaced="gone") is None


@pytest.mark.parametrize("held", [{"paused": True}, {"rate_limit": 0}])
def test_a_job_that_reads_no_snapshot_waits_for_new_versions_alone(held):
    assert demand(settings_of(**held), FIRST, UNFINISHED, 5) is None


def test_a_repair_needs_an_epoch_until_a_barrier_pins_it():
    asked = settings_of(finished_epoch=1, sequence=3, repair_sequence=3)

    assert reason_of(asked, FIRST, COMPLETED, 5) == "a repair is requested"
    assert demand(asked, barrier_of(1, upstream=window_of(-1, 5), settings_sequence=3), COMPLETED, 5) is None


def test_a_cancelled_job_needs_nothing_any_more():
    assert demand(settings_of(cancelled=True), FIRST, UNFINISHED, 9) is None


def test_resuming_repeats_a_demand_from_before_the_pause():
    before, resumed = settings_of(sequence=1), settings_of(sequence=3)

    assert demand(before, FIRST, UNFINISHED, 5).key != demand(resumed, FIRST, UNFINISHED, 5).key


def test_a_rebuild_repeats_the_demand_of_a_version():
    before, rebuilt = settings_of(), settings_of(incarnation="b2", base_epoch=1, sequence=2)

    assert demand(before, FIRST, COMPLETED, 6).key != demand(rebuilt, None, None, 6).key


def test_a_rebuild_repeats_the_demand_of_the_snapshot():
    """If control tables are created again, the same epoch and the same settings record can occur again."""
    assert demand(settings_of(), FIRST, UNFINISHED, 5).key != (
        demand(settings_of(incarnation="b2"), FIRST, UNFINISHED, 5).key
    )


def test_a_version_after_the_first_epoch_is_another_demand_than_the_creation():
    assert demand(settings_of(), FIRST, UNFINISHED, 6).key != demand(None, None, None, 6).key


def given_up_at(to_version, **changes):
    """An epoch that was given up: its window, up to a version, did not move."""
    why = GivenUp(error="QueryFailedError", message="m", by="x", at=NOW, to_offset=to_version, settings_sequence=1)
    return barrier_of(upstream=window_of(4, 4), given_up=why, **changes)


def test_a_given_up_epoch_needs_no_other_until_the_upstream_or_the_settings_change():
    """It would fail again at once, and again."""
    newest = given_up_at(7)
    commit = commit_of(newest, given_up=True)
    settings = settings_of()
    assert demand(settings, newest, commit, 7) is None
    assert (
        demand(settings, newest, commit, 8).reason
        == "the upstream's newest offset is 8, and the epochs have read up to 4"
    )
    resumed = settings.model_copy(update={"sequence": 2})
    assert demand(resumed, newest, commit, 7) is not None


def test_rows_that_a_view_begins_with_need_an_epoch_even_if_nothing_is_read():
    """A paused job, too: nothing else would replace the former view's rows."""
    first = FirstRows(point=HistoryPoint(offset=5), location="/lake/successor", version=3)
    begun = settings_of(paused=True, first_rows=first)
    assert reason_of(begun, None, None, 5) == "the view's first rows are not written yet"
    assert demand(begun, FIRST, COMPLETED, 5) is None


def test_a_new_offset_of_another_upstream_than_the_lead_needs_an_epoch_and_nothing_else_of_it_does():
    """The trigger of the lead tells everything else, so that a DAG does not start twice for it."""
    barrier = barrier_of(1, windows=(window_of(-1, 5), window_of(-1, 2, relation="customers")))
    assert demand(settings_of(), barrier, UNFINISHED, 2, other="customers") is None
    found = demand(settings_of(), barrier, UNFINISHED, 3, other="customers")
    assert found.reason == "customers's newest offset is 3, and the epochs have read up to 2"
    assert demand(None, None, None, 3, other="customers") is None


def test_an_approved_view_needs_the_epoch_that_marks_it_and_one_that_waits_needs_none():
    withheld = commit_of(FIRST, completed=True, withheld=True)
    assert demand(settings_of(job_of(cut_over="on_approval")), FIRST, withheld, 5) is None
    assert reason_of(settings_of(), FIRST, withheld, 5) == "the view is approved and can be marked as finished"
