"""A job that begins at an earlier version of its upstream, of which everything has to be there."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.core.errors import ChangeFeedGapError, InvalidJobError, UpstreamError
from airflow_backfill_provider.jobs.planning.plan import make_plan
from airflow_backfill_provider.jobs.planning.plan_text import describe_plan
from tests.property.backfilling import Backfilling

pytestmark = pytest.mark.slow  # jobs over Delta tables


@pytest.fixture
def older(lake):
    """A job over a table with five versions, which keeps former rows since before it is created."""
    made = Backfilling(lake, keep="history", strategy="snapshot", visibility="on_finish", as_of=2)
    for key in range(5):
        made.orders.add(key)
    return made


@pytest.mark.parametrize(("as_of", "begin"), [(2, 2), ("oldest", 0), (4, 4)])
def test_a_job_begins_at_the_version_that_it_names(older, as_of, begin):
    assert older.create(as_of=as_of).first_offset.number == begin
    assert older.create(as_of=as_of).sequence == 1


@pytest.mark.parametrize(
    ("fields", "error", "said"),
    [
        ({"as_of": 5}, InvalidJobError, "as_of: the newest version of .* is 4; give that or an older one"),
        ({"as_of": "2020-01-01T00:00:00Z"}, InvalidJobError, "has nothing that is as old as 2020-01-01"),
        ({"as_of": "2999-01-01T00:00:00Z"}, InvalidJobError, "lies in the future"),
        ({"strategy": "no_shuffle"}, InvalidJobError, "as_of: strategy no_shuffle reads rows as of the epochs that"),
        (
            {"strategy": "auto", "visibility": "every_epoch"},
            InvalidJobError,
            "as_of: strategy .*; use strategy snapshot",
        ),
        ({"valid_by": "commit_time"}, UpstreamError, "version 2 of .* has no in-commit timestamp"),
    ],
)
def test_a_beginning_that_is_not_there_is_refused(older, fields, error, said):
    """I6: with nothing written."""
    before = sorted(older.lake.rglob("*"))
    with pytest.raises(error, match=said):
        older.create(**fields)
    assert sorted(older.lake.rglob("*")) == before


def without_feed_for_a_while(older):
    for state in ("false", "true"):
        DeltaTable(older.orders.path).alter.set_table_properties({"delta.enableChangeDataFeed": state})


def test_a_beginning_whose_later_changes_are_unknown_is_refused(older):
    without_feed_for_a_while(older)
    with pytest.raises(ChangeFeedGapError, match="as_of: .*/orders can be followed since 6 only, and not since 2"):
        older.create()
    older.create(as_of="oldest")
    assert older.store.settings().first_offset.number == 6


def test_a_plan_says_since_when_and_refuses_what_creation_does(older):
    before = sorted(older.lake.rglob("*"))
    plan = make_plan(older.backfill)
    assert (plan.upstream_version.number, plan.newer_offsets, plan.rows) == (2, 2, 3)
    assert dict(describe_plan(plan).facts)["former rows"] == "since version 2, and then as of each of 2 newer versions"
    assert sorted(older.lake.rglob("*")) == before
    older.create()
    assert make_plan(older.backfill).newer_offsets is None
    without_feed_for_a_while(older)
    older.job = older.job.model_copy(update={"name": "another", "state": f"{older.lake}/another"})
    with pytest.raises(ChangeFeedGapError):
        make_plan(older.backfill)
