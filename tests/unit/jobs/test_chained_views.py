"""A view over a view that is not finished: plan and status warn of it until it is."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.jobs.planning.plan import make_plan
from airflow_backfill_provider.lake.tables.view_identity import FINISHED_PROPERTY, INCARNATION_PROPERTY, JOB_PROPERTY
from tests.property.backfilling import Backfilling

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


def say(backfilling, finished):
    properties = {JOB_PROPERTY: "first", INCARNATION_PROPERTY: "a1", FINISHED_PROPERTY: finished}
    DeltaTable(backfilling.orders.path).alter.set_table_properties(properties, raise_if_not_exists=False)


def warnings(backfilling):
    """What the plan and the status say of the upstream's own job."""
    found = (*make_plan(backfilling.backfill).warnings, *backfilling.backfill.status().warnings)
    return [warning for warning in found if "materialized view of job first, which is not finished" in warning]


def test_a_view_over_an_unfinished_view_is_warned_of_until_that_is_finished(lake):
    backfilling = Backfilling(lake)
    backfilling.orders.add(*range(3))
    say(backfilling, "false")
    assert "not finished" in make_plan(backfilling.backfill).warnings[0]
    backfilling.create()
    backfilling.finish()
    assert len(warnings(backfilling)) == 2
    say(backfilling, "true")
    assert warnings(backfilling) == []


def test_any_other_upstream_gives_no_warning(lake):
    backfilling = Backfilling(lake)
    backfilling.orders.add(*range(3))
    backfilling.create()
    assert warnings(backfilling) == []
