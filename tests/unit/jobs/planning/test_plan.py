"""The dry run: what is left of a job as it stands, and what its next epoch would look into."""

from __future__ import annotations

import shutil

import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.core.errors import (
    ChangeDataFeedDisabledError,
    InvalidJobError,
    JobNotCreatedError,
    UpstreamReplacedError,
)
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.planning.plan import make_plan
from tests.property.backfilling import Backfilling


def planned(lake, *files, **job):
    """A job over orders in some files, not created yet, three rows an epoch."""
    backfilling = Backfilling(lake, **job)
    for ids in files:
        backfilling.orders.add(*ids)
    return backfilling


@pytest.fixture
def created(lake):
    """A created job over the orders 0 to 8 in three files."""
    backfilling = planned(lake, range(3), range(3, 6), range(6, 9))
    backfilling.create()
    return backfilling


def test_an_empty_upstream_takes_an_epoch(lake):
    plan = make_plan(planned(lake, ()).backfill)
    assert (plan.rows, plan.rows_left, plan.epochs) == (0, 0, 1)


def test_a_snapshot_is_followed_by_a_replay_of_at_most_ten_epochs(lake):
    hidden = {"strategy": "snapshot", "visibility": "on_finish"}
    plan = make_plan(planned(lake, range(3), **hidden).backfill)
    assert plan.last_epochs.startswith(
        "once all files are read, the changes since then are applied in at most 10 epochs"
    )


def test_groups_that_are_read_one_by_one_are_planned_without_the_types_of_their_units(lake):
    """Only Spark knows these, and a plan of a job that is not created yet has no position."""
    query = "SELECT status, count(*) AS n FROM upstream GROUP BY status"
    plan = make_plan(planned(lake, range(9), query=query, strategy="auto", visibility="on_finish").backfill)
    assert (plan.strategy, plan.epochs) == ("arrangement", 3)
    assert "rate_limit: a view of shape group is filled under strategy snapshot by one epoch" in plan.reason


def test_groups_of_rows_that_are_only_appended_read_none_again(lake):
    """So there is no break-even with a view that is computed whole, and no group is too large."""
    backfilling = planned(lake, range(9))
    path = backfilling.job.upstream.path
    query = "SELECT status, max(amount) AS most FROM upstream GROUP BY status"
    fields = {
        **backfilling.job.model_dump(mode="json"),
        "query": query,
        "upstream": {"path": path, "append_only": True},
    }
    del fields["visibility"]
    plan = make_plan(Backfill(BackfillJob(**fields)))
    assert (plan.strategy, plan.epochs, plan.technique) == ("source", 3, "fold")
    assert plan.refresh_reads == "the rows that came, and the state of their groups"
    assert (plan.refresh_rows, plan.break_even, plan.cost) == (None, None, "")


def test_a_named_upstream_is_planned_if_its_location_is_given(lake):
    """Without Spark nobody can look it up, and the view's location is not needed."""
    backfilling = planned(lake, range(3))
    fields = {**backfilling.job.model_dump(mode="json"), "materialized_view": "prod.sales.paid"}
    upstream = {**fields["upstream"], "table": "prod.sales.orders"}
    assert make_plan(Backfill(BackfillJob(**{**fields, "upstream": upstream}))).rows == 3
    del upstream["path"]
    with pytest.raises(JobNotCreatedError, match=r"create it first, or give upstream\.path"):
        make_plan(Backfill(BackfillJob(**{**fields, "upstream": upstream})))


@pytest.mark.parametrize(
    ("job", "rows_left", "files"),
    [
        ({}, 9, 1),
        ({"rate_limit": 4}, 9, 2),
        ({"restrict_to": {"vnodes": [0, 1]}}, 4, 1),
        ({"restrict_to": {"keys": {"after": [5]}}, "rate_limit": None}, 3, 2),
        ({"strategy": "arrangement"}, 9, 0),  # they are another table's, which is not made yet
        ({"rate_limit": 0}, 9, 0),
    ],
)
def test_the_first_epoch_of_a_job_that_is_not_created_looks_into_the_files_of_its_chunk(lake, job, rows_left, files):
    plan = make_plan(planned(lake, range(3), range(3, 6), range(6, 9), **job).backfill)
    assert (plan.created, plan.rows, plan.rows_left, plan.first_epoch_files) == (False, 9, rows_left, files)


def test_a_created_job_is_planned_with_the_settings_in_force(created):
    """Those of the definition only say where it began."""
    mutations.throttle_job(1, store=created.store, requested_by="x")
    plan = make_plan(created.backfill)
    assert (plan.rate_limit, plan.epochs, plan.first_epoch_files, plan.warnings) == (1, 9, 1, ())
    assert plan.estimates["no_shuffle"].epochs == 9
    mutations.pause_job(store=created.store, requested_by="x")
    paused = make_plan(created.backfill)
    assert (paused.rows_left, paused.epochs, paused.first_epoch_files) == (9, None, 0)


def test_what_is_left_of_a_job_is_never_negative(created):
    created.epoch()
    created.orders.remove(*range(7))
    plan = make_plan(created.backfill)
    assert (plan.rows, plan.rows_left, plan.epochs) == (2, 0, 1)


def test_a_completed_job_has_nothing_left_even_if_it_read_fewer_snapshot_rows(created):
    """A row that was inserted at or before the position was a change."""
    created.epoch()
    created.orders.add(-1)
    created.finish()
    created.orders.add(*range(20, 60))
    plan = make_plan(created.backfill)
    assert (plan.rows, plan.rows_left, plan.epochs, plan.first_epoch_files) == (50, 0, 0, 0)


def test_a_created_job_keeps_its_strategy_whatever_would_be_chosen_now(lake):
    scattered = [range(start, 400, 20) for start in range(20)]
    backfilling = planned(lake, *scattered, rate_limit=None)
    assert backfilling.create().strategy == "no_shuffle"
    mutations.throttle_job(4, store=backfilling.store, requested_by="x")
    plan = make_plan(backfilling.backfill)
    assert (plan.strategy, plan.reason) == ("no_shuffle", "chosen when the job was created")


def test_a_plan_refuses_what_the_next_epoch_would_refuse(created):
    """I6."""
    edited = created.job.model_dump(mode="json") | {"query": "SELECT id FROM upstream"}
    with pytest.raises(InvalidJobError, match="with another query"):
        make_plan(Backfill(type(created.job)(**edited)))
    shutil.rmtree(created.orders.path)
    created.orders.rows.clear()
    created.orders.add(1)
    with pytest.raises(UpstreamReplacedError, match="rebuild the job"):
        make_plan(created.backfill)


@pytest.mark.parametrize(
    ("job", "technique", "reads"),
    [
        ({"query": "SELECT amount, count(*) AS n FROM upstream GROUP BY amount"}, "fold", "the state of the touched"),
        ({"query": "SELECT amount, median(id) AS m FROM upstream GROUP BY amount"}, "slice", "the touched groups"),
        ({"query": "SELECT median(id) AS m FROM upstream"}, "slice", "the changes, and all rows of the upstream again"),
        ({"query": "SELECT count(*) AS n FROM upstream", "refresh": "full"}, "full", "and no changes"),
        ({}, "", ""),
    ],
)
def test_a_plan_says_how_the_view_will_be_kept_up_to_date(lake, job, technique, reads):
    backfilling = planned(lake, range(3), **{"rate_limit": None, **job})
    plan = make_plan(backfilling.backfill)
    assert plan.technique == technique
    assert reads in plan.refresh_reads


def test_groups_with_former_rows_are_computed_anew_and_never_all_of_them(lake):
    query = "SELECT status, count(*) AS n FROM upstream GROUP BY status"
    found = make_plan(planned(lake, range(20), rate_limit=None, query=query, keep="history").backfill)
    assert (found.technique, found.break_even) == ("slice", None)
    assert found.technique_reason.endswith("computed anew, because the view keeps former rows")
    assert found.warnings[0].endswith("all of them: group by more columns")


@pytest.mark.parametrize(
    ("query", "largest"),
    [
        ("SELECT amount, count(*) AS n FROM upstream GROUP BY amount", 4),
        ("SELECT `AMOUNT` AS a, status, count(*) AS n FROM upstream u GROUP BY u.amount, status", 3),
        ("SELECT amount % 2 AS odd, count(*) AS n FROM upstream GROUP BY 1", None),
        ("SELECT count(*) AS n FROM upstream", None),
        ("SELECT id FROM upstream", None),
    ],
)
def test_a_plan_counts_the_largest_unit_if_plain_columns_divide_the_rows(lake, query, largest):
    """Rows of one large group are all computed again by each change of one of them."""
    backfilling = planned(lake, rate_limit=None, query=query)
    backfilling.orders.add(0, 1, 2, amount=7)
    backfilling.orders.add(3, amount=7, status=None)
    backfilling.orders.add(4, 5, amount=8)
    assert make_plan(backfilling.backfill).largest_unit == largest


def test_a_plan_over_an_upstream_without_change_feed_is_made_if_the_view_is_computed_whole(lake):
    backfilling = planned(lake, range(3), rate_limit=None, refresh="full")
    DeltaTable(backfilling.orders.path).alter.set_table_properties({"delta.enableChangeDataFeed": "false"})
    assert make_plan(backfilling.backfill).technique == "full"
    with pytest.raises(ChangeDataFeedDisabledError):
        make_plan(Backfill(backfilling.job.model_copy(update={"refresh": "incremental"})))
