"""Jobs that name their tables in a catalog: which fields they need, and how their locations are filled in."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.definition import BackfillJob
from tests.builders import job_of

UPSTREAM, VIEW = "prod.sales.orders", "prod.sales.paid_orders"
NAMED = {"upstream": {"table": UPSTREAM, "key": ["id"]}, "materialized_view": VIEW}


def named(**changes) -> BackfillJob:
    return job_of(**{**NAMED, "state": "/lake/state", **changes})


def test_a_job_of_names_has_no_locations_yet():
    job = named()
    assert (job.upstream.catalog_table, job.upstream.location, job.upstream.is_placed) == (UPSTREAM, UPSTREAM, False)
    assert (job.view_name, job.view_location, job.is_placed) == (VIEW, "", False)


def test_a_job_of_locations_has_no_names():
    job = job_of()
    assert (job.upstream.catalog_table, job.view_name, job.is_placed) == ("", "", True)
    assert job.view_location == job.materialized_view == "/lake/paid_orders"
    assert not {"view_path", "table"} & {*job.definition(), *job.definition()["upstream"]}, "as it was before names"


def test_placed_jobs_keep_their_names_and_are_read_again():
    placed = named().placed(upstream="file:/lake/orders/", view="file:/lake/warehouse/paid")
    assert (placed.upstream.location, placed.view_location) == ("/lake/orders", "/lake/warehouse/paid")
    assert (placed.upstream.catalog_table, placed.view_name, placed.is_placed) == (UPSTREAM, VIEW, True)
    assert BackfillJob(**placed.model_dump(mode="json")) == placed


def test_an_append_only_upstream_keeps_its_file_log_when_it_is_placed():
    job = named(upstream={"table": UPSTREAM, "append_only": True}, query="SELECT amount FROM upstream")
    placed = job.placed(upstream="/lake/orders")
    assert placed.upstream.file_log == job.upstream.file_log == "/lake/state/file_log"


def test_locations_are_taken_from_a_job_that_names_the_same_tables():
    created = named().placed(upstream="/lake/orders", view="/lake/paid")
    assert named().placed_like(created) == created
    elsewhere = named(view_path="/elsewhere").placed_like(created)
    assert (elsewhere.view_location, elsewhere.upstream.location) == ("/elsewhere", "/lake/orders")
    other = named(upstream={"table": "prod.sales.others", "key": ["id"]}, materialized_view="prod.sales.other")
    assert not other.placed_like(created).upstream.is_placed
    assert not other.placed_like(created).view_location
    assert job_of().placed_like(created) == job_of()


def test_the_default_folder_of_control_tables_is_beside_a_view_with_a_location():
    assert job_of(**NAMED).state == ""
    assert job_of(**NAMED, view_path="/lake/views/paid").state == "/lake/views/_backfill/paid_orders"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"view_path": "/lake/x"}, "view_path: materialized_view is a location already"),
        ({"materialized_view": "sales.paid"}, "materialized_view: 'sales.paid' is not a table's full name"),
        ({"upstream": {"key": ["id"]}}, "upstream.path: is required: the table's location; or give its name"),
        ({"upstream": {"table": "orders", "key": ["id"]}}, "upstream.table: 'orders' is not a table's full name"),
        ({**NAMED, "view_path": "relative"}, "view_path: location 'relative' is relative"),
        (
            {**NAMED, "view_path": "/lake/a", "state": "/lake/a/b"},
            "state (/lake/a/b) lies in view_path (/lake/a); give each its own folder",
        ),
    ],
)
def test_contradictions_are_refused_by_the_field(fields, message):
    with pytest.raises(InvalidJobError) as raised:
        job_of(**fields)
    assert message in str(raised.value)
    assert str(raised.value).count("upstream.path") <= 1


def test_locations_that_lie_in_each_other_are_refused_when_they_are_known():
    """I6: a catalog may put the view into the upstream's folder."""
    with pytest.raises(InvalidJobError, match="view_path .* lies in upstream.path"):
        named().placed(upstream="/lake/orders", view="/lake/orders/view")


def test_other_kinds_of_upstreams_name_no_table():
    job = job_of(upstream={"debezium": {"path": "/lake/events", "key": ["id"]}}, strategy="auto")
    with pytest.raises(TypeError, match="debezium names no table"):
        job.placed(upstream="/lake/elsewhere")
