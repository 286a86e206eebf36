"""The dry run of a job whose view is an existing table."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from airflow_backfill_provider.core.errors import MaterializedViewError
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.jobs.planning.plan import make_plan
from airflow_backfill_provider.jobs.planning.plan_text import describe_plan
from tests.unit.jobs.test_adoption import Adopting

pytestmark = pytest.mark.slow  # plans through Delta tables


@pytest.fixture
def adopting(lake):
    return Adopting(lake)


def test_a_plan_says_what_would_be_adopted_and_writes_nothing(adopting):
    backfill = adopting.backfill(as_of=1, sample=3)
    before = sorted(adopting.lake.rglob("*"))
    plan = make_plan(backfill)
    assert sorted(adopting.lake.rglob("*")) == before
    assert (plan.adopts.first_rows.version, plan.adopts.as_of, plan.adopts.offsets_after) == (0, Offset(1), 2)
    assert (plan.rows_left, plan.epochs) == (0, 0)
    said = dict(describe_plan(plan).facts)
    assert said["adopts"].startswith(f"version 0 of {adopting.lake}/nightly, ")
    assert said["adopts"].endswith("in 1 file, by a copy of its files, as of version 1")
    assert said["compares"] == "3 vnodes of it with the query before anything is written"
    assert said["then"] == "the first epoch applies the changes of 2 newer offsets"
    assert "its last write: WRITE, delta-rs" in said["to stop"]


def test_a_created_job_has_nothing_to_adopt(adopting):
    adopting.create()
    assert make_plan(adopting.backfill()).adopts is None


def test_a_table_that_cannot_be_adopted_is_refused_by_the_plan(adopting):
    write_deltalake(
        f"{adopting.lake}/strict",
        pa.table({"id": pa.array([1], pa.int64())}),
        configuration={"delta.appendOnly": "true"},
    )
    with pytest.raises(MaterializedViewError, match=r"delta\.appendOnly"):
        make_plan(adopting.backfill(path=f"{adopting.lake}/strict"))
