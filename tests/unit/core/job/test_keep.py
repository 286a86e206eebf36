"""Which rows a view keeps, in its job's definition."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.keep import Keep, require_free_names
from tests.builders import job_of

ORDERS = {"path": "/lake/orders", "key": ["id", "shop"]}
BY_STATUS = {**ORDERS, "distribution_key": ["id", "status"]}
EVENTS = {"path": "/lake/events", "append_only": True}
DATABASE = {"postgres": {"connection": "shop", "table": "public.orders", "key": ["id"]}}
TWO = {"o": ORDERS, "c": {"path": "/lake/customers", "key": ["id"]}}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"keep": "all"}, "keep: Input should be 'latest', 'deleted' or 'history'"),
        (
            {"query": "SELECT status, count(*) AS n FROM upstream GROUP BY status"},
            "a view of shape group does not keep",
        ),
        ({"query": "SELECT max(n) AS n FROM upstream", "refresh": "full"}, "a view of shape full does not keep"),
        ({"upstream": EVENTS, "query": "SELECT n FROM upstream"}, "an upstream of kind append_only have no versions"),
        ({"upstream": DATABASE}, "an upstream of kind postgres have no versions"),
        ({"upstream": BY_STATUS}, "upstream.distribution_key has status, so a row may move"),
        ({"keep": "latest", "valid_by": "commit_time"}, "valid_by: the view keeps no former rows; give keep, too"),
        ({"backfill_from": {"path": "/lake/old"}, "as_of": 3}, "the table of backfill_from does not say since when"),
        ({"query": "SELECT struct(*) AS s FROM upstream"}, r"query: with keep: history, \* cannot stand inside of an"),
        ({"query": "SELECT *, hash(*) AS h FROM upstream"}, r"query: with keep: history, \* cannot stand inside of an"),
    ],
)
def test_what_cannot_be_kept_exactly_is_refused_by_name(fields, said):
    """I6: before anything is written."""
    with pytest.raises(InvalidJobError, match=said):
        job_of(**{"upstream": ORDERS, "query": "SELECT id FROM upstream", "keep": "history", **fields})


def test_a_join_keeps_no_former_rows():
    fields = {"upstreams": TWO, "query": "SELECT o.id, c.name FROM o JOIN c ON o.customer = c.id", "keep": "deleted"}
    with pytest.raises(InvalidJobError, match="a view of shape join does not keep former rows"):
        BackfillJob(name="joined", materialized_view="/lake/view", **fields)


@pytest.mark.parametrize("strategy", ["auto", "snapshot", "no_shuffle", "arrangement"])
@pytest.mark.parametrize("keep", ["deleted", "history"])
def test_every_strategy_of_a_table_with_versions_keeps_former_rows(keep, strategy):
    job = job_of(upstream={**ORDERS, "distribution_key": ["shop"]}, keep=keep, strategy=strategy)
    assert job.definition()["keep"] == keep
    assert type(job)(**job.definition()) == job


def test_a_job_that_keeps_only_the_latest_rows_has_the_definition_that_it_always_had():
    """Otherwise a job that was created by an older version would count as changed."""
    assert "keep" not in job_of(keep="latest").definition()


@pytest.mark.parametrize("as_of", [0, "oldest", "2026-11-28T02:00:00+00:00"])
def test_former_rows_may_be_older_than_the_job(as_of):
    job = job_of(keep="history", as_of=as_of)
    assert type(job)(**job.definition()) == job
    assert job.kept_since == job.as_of
    assert job.computed() == job
    assert job_of(keep="history").kept_since is None


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"keep": "latest", "as_of": 1},
            "as_of: says what the table of backfill_from shows, or since when a view with",
        ),
        (
            {"as_of": "newest"},
            "as_of: must be a version of the upstream, such as 42, or a time .*; with keep also oldest",
        ),
        ({"as_of": -1}, "as_of: -1 is no version"),
        ({"keep": "latest", "backfill_from": {"path": "/lake/old"}, "as_of": "oldest"}, "as_of: a table of backfill"),
    ],
)
def test_a_point_that_no_view_begins_at_is_refused(fields, said):
    with pytest.raises(InvalidJobError, match=said):
        job_of(**{"keep": "history", **fields})


@pytest.mark.parametrize(("keep", "name"), [(Keep.HISTORY, "_Valid_From"), (Keep.DELETED, "_deleted_at")])
def test_a_query_may_not_have_a_column_that_the_view_has_for_itself(keep, name):
    with pytest.raises(InvalidJobError, match=f"the view has a column {name.lower()} of its own"):
        require_free_names(keep, ["id", name])
    require_free_names(Keep.LATEST, [name])


def test_which_rows_are_those_of_the_query():
    assert Keep.LATEST.is_present({})
    assert Keep.DELETED.is_present({"_deleted_at": None})
    assert not Keep.DELETED.is_present({"_deleted_at": 0})
    assert Keep.HISTORY.is_present({"_valid_from": 3, "_valid_to": None, "_is_current": True})
    assert not Keep.HISTORY.is_present({"_valid_from": 3, "_valid_to": 5, "_is_current": False})
