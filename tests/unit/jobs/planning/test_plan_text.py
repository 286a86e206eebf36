"""A plan in words, for the terminal and for Airflow's UI."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_backfill_provider.jobs.planning.plan import BackfillPlan
from airflow_backfill_provider.jobs.planning.plan_text import COST_COLUMNS, describe_plan
from airflow_backfill_provider.strategies.cost import CostEstimate

COST = CostEstimate(rows=1000, bytes=5 * 2**20, epochs=4, spark_runs=5, hours=0.0417)


def plan_of(**changes: Any) -> BackfillPlan:
    fields: dict[str, Any] = {
        "name": "paid_orders",
        "created": False,
        "strategy": "no_shuffle",
        "reason": "the job asks for it",
        "estimates": {"no_shuffle": COST, "arrangement": COST.model_copy(update={"hours": 1234.5})},
        "upstream_version": 3,
        "files": 4,
        "rows": 1000,
        "rows_left": 700,
        "bytes": 2**20,
        "rate_limit": 300,
        "effective_rate_limit": changes.get("rate_limit", 300),
        "rate_limit_reason": "",
        "parallelism": 1,
        "epochs": 3,
        "first_epoch_files": 2,
        "first_epoch_rows_scanned": 500,
        "first_epoch_bytes": 1000,
        "warnings": (),
    }
    return BackfillPlan(**{**fields, **changes})


def facts(**changes: Any) -> dict[str, str]:
    return dict(describe_plan(plan_of(**changes)).facts)


def test_a_job_that_is_not_created_is_planned_whole_and_checked_later():
    text = describe_plan(plan_of())
    assert text.heading == "paid_orders: not created yet"
    assert "nothing was written; create also checks" in text.closing
    assert dict(text.facts) == {
        "strategy": "no_shuffle: the job asks for it",
        "upstream": "1,000 rows, 1.0 MiB in 4 files as of version 3",
        "rate limit": "300 rows per epoch",
        "to read": "700 rows in about 3 epochs",
        "next epoch": "reads 2 of 4 files (500 rows, 1000 bytes)",
    }


def test_an_offset_has_the_name_that_its_source_gives_it():
    assert facts(offset_name="position")["upstream"] == "1,000 rows, 1.0 MiB in 4 files as of position 3"


def test_a_created_job_is_planned_for_the_rest_of_it():
    text = describe_plan(plan_of(created=True))
    assert (text.heading, text.closing) == ("paid_orders: created already; the rest of it", "")


@pytest.mark.parametrize(
    ("epochs", "said"),
    [
        (None, "700 rows; paused: no epoch reads any of it"),
        (0, "700 rows; the backfill is complete, so epochs only apply changes"),
        (1, "700 rows in one epoch"),
        (1200, "700 rows in about 1,200 epochs"),
    ],
)
def test_how_many_epochs_it_takes(epochs, said):
    assert facts(epochs=epochs)["to read"] == said


@pytest.mark.parametrize("epochs", [None, 0])
def test_an_epoch_that_reads_nothing_opens_no_file(epochs):
    assert "next epoch" not in facts(epochs=epochs)


def test_an_arrangement_is_made_at_creation_and_then_read():
    arranged = {"strategy": "arrangement", "first_epoch_files": 0}
    assert "which creating the job sorts the upstream once" in facts(**arranged)["next epoch"]
    assert "next epoch" not in facts(**arranged, created=True)
    read = facts(strategy="arrangement", created=True, first_epoch_files=1)["next epoch"]
    assert read == "reads 1 file of the arrangement (500 rows, 1000 bytes)"


def test_rate_limit_and_parallelism():
    assert facts(rate_limit=None)["rate limit"] == "unlimited"
    assert facts(rate_limit=0)["rate limit"] == "0 rows per epoch"
    begins = {"effective_rate_limit": 5000, "rate_limit_reason": "because no speed is measured yet"}
    found = facts(rate_limit="auto", **begins)["rate limit"]
    assert found == "auto: 5,000 rows per epoch, because no speed is measured yet"
    assert "parallel" not in facts()
    assert facts(parallelism=4)["parallel"] == "4 task runs share each epoch"


def test_what_the_last_epochs_do():
    assert "afterwards" not in facts()
    assert facts(last_epochs="all files are read")["afterwards"] == "all files are read"


def test_warnings_come_last_and_all_of_them():
    found = describe_plan(plan_of(warnings=("one", "two"))).facts
    assert found[-2:] == (("warning", "one"), ("warning", "two"))


def test_each_strategy_has_a_row_of_costs_with_a_value_for_each_column():
    costs = describe_plan(plan_of()).costs
    assert costs == (
        ("no_shuffle", "1,000", "5.0 MiB", "4", "5", "0.04"),
        ("arrangement", "1,000", "5.0 MiB", "4", "5", "1,234.50"),
    )
    assert {len(row) for row in costs} == {len(COST_COLUMNS)}
    assert "50 MB/s" in describe_plan(plan_of()).basis


def test_a_plan_of_groups_says_how_the_view_is_kept_and_from_when_on_computing_all_costs_less():
    how = {
        "technique": "slice",
        "technique_reason": "the groups that changes touch are computed anew",
        "refresh_reads": "the changes, and all rows again",
        "refresh_rows": 1_000,
        "refresh_writes": "the rows that differ",
        "break_even": 0,
    }
    found = facts(**how)
    assert found["technique"] == "slice: the groups that changes touch are computed anew"
    assert found["each epoch"] == "reads the changes, and all rows again (1,000 rows), and writes the rows that differ"
    assert found["break-even"].startswith(
        "by the benchmark, computing the whole view always costs less for 1,000 rows: set refresh: full"
    )
    assert "largest unit" not in found
    assert facts(**how, largest_unit=230)["largest unit"].startswith("230 rows, 23.0 %; a change of it computes")
    folded = {**how, "technique": "fold", "refresh_rows": None}
    assert facts(**folded)["each epoch"].startswith("reads the changes, and all rows again, and")
    assert facts(**folded, largest_unit=230)["largest unit"] == "230 rows, 23.0 %"
    assert "break-even" not in facts(**{**how, "technique": "full", "break_even": None})
    assert "technique" not in facts()
