"""Which strategy suits an upstream, from the statistics of its files alone."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.strategies import evidence as strategy
from airflow_backfill_provider.strategies.choice import choose_strategy
from airflow_backfill_provider.strategies.evidence import EPOCHS_OF_A_PAUSED_JOB, SECONDS_PER_RUN
from tests.builders import Orders, job_of

# --- overlap --------------------------------------------------------------------------------------


# --- the choice -----------------------------------------------------------------------------------


def chosen(lake, files, **job):
    orders = Orders(lake)
    for ids in files:
        orders.add(*ids)
    return choose_strategy(job_of(lake, **job), orders.table, orders.table.at())


IN_ORDER = [range(start, start + 20) for start in range(0, 200, 20)]
SCATTERED = [range(start, 200, 10) for start in range(10)]


@pytest.mark.parametrize(
    ("rate_limit", "strategy", "said"),
    [
        (200, "no_shuffle", "one epoch reads all there is in place"),
        (100, "no_shuffle", "statistics bound each chunk: 200 of 200 rows"),
        (50, "no_shuffle", "statistics bound each chunk"),  # four times a chunk is not too much to scan
        (49, "arrangement", "statistics cannot bound a chunk"),
    ],
)
def test_files_in_random_order_are_arranged_if_an_epoch_scans_too_much_for_its_chunk(lake, rate_limit, strategy, said):
    choice = chosen(lake, SCATTERED, rate_limit=rate_limit)
    assert (choice.strategy.name, said in choice.reason) == (strategy, True)


def test_files_in_key_order_are_read_in_place(lake):
    choice = chosen(lake, IN_ORDER, rate_limit=20)
    assert choice.strategy.name == "no_shuffle"
    assert choice.reason == (
        "chosen by auto, because the files' statistics bound each chunk: 0 of 200 rows lie in files that reach across "
        "others in id"
    )


def test_keys_in_random_order_are_arranged(lake):
    choice = chosen(lake, SCATTERED, rate_limit=20)
    assert choice.strategy.name == "arrangement"
    assert "statistics cannot bound a chunk: 200 of 200 rows" in choice.reason


def test_files_that_overlap_only_their_neighbours_are_read_in_place(lake):
    files = [range(start, start + 40, 2) for start in range(0, 400, 20)]
    assert chosen(lake, files, rate_limit=40).strategy.name == "no_shuffle"


@pytest.mark.parametrize("rate_limit", [None, 200, 1000])
def test_what_one_epoch_reads_is_read_in_place(lake, rate_limit):
    choice = chosen(lake, SCATTERED, rate_limit=rate_limit)
    assert choice.strategy.name == "no_shuffle"
    assert "one epoch reads all" in choice.reason


@pytest.mark.parametrize("files", [[], [[]]])
def test_an_empty_upstream_is_read_in_place(lake, files):
    Orders(lake).add()
    assert chosen(lake, files, rate_limit=1).strategy.name == "no_shuffle"


def test_a_job_that_begins_paused_is_not_taken_for_one_epoch(lake):
    choice = chosen(lake, SCATTERED, rate_limit=0)
    assert choice.strategy.name == "arrangement"
    assert choice.estimates[choice.strategy.name].epochs == EPOCHS_OF_A_PAUSED_JOB


def test_parallel_runs_need_vnodes_of_their_own(lake):
    choice = chosen(lake, IN_ORDER, rate_limit=20, parallelism=2)
    assert choice.strategy.name == "arrangement"
    assert "2 parallel runs" in choice.reason


@pytest.mark.parametrize("strategy", ["no_shuffle", "arrangement"])
def test_what_the_job_asks_for_is_chosen(lake, strategy):
    choice = chosen(lake, SCATTERED, rate_limit=20, strategy=strategy)
    assert (choice.strategy.name, choice.reason) == (strategy, "the job asks for it")


def test_only_the_leading_column_of_the_key_decides(lake):
    """Files are skipped by it alone."""
    upstream = {"path": f"{lake}/orders", "key": ["status", "id"]}
    assert chosen(lake, IN_ORDER, rate_limit=20, upstream=upstream).strategy.name == "arrangement"


# --- the estimates --------------------------------------------------------------------------------


def test_both_strategies_are_estimated_whichever_is_chosen(lake):
    estimates = chosen(lake, IN_ORDER, rate_limit=20).estimates
    assert set(estimates) == {"no_shuffle", "arrangement"}
    assert {cost.rows for cost in estimates.values()} == {200}
    assert {cost.epochs for cost in estimates.values()} == {10}
    assert {cost.spark_runs for cost in estimates.values()} == {11}
    assert estimates["no_shuffle"].bytes < estimates["arrangement"].bytes


def test_scanning_scattered_files_in_every_epoch_costs_more_than_arranging_them_once(lake):
    estimates = chosen(lake, SCATTERED, rate_limit=10).estimates
    assert estimates["no_shuffle"].bytes > estimates["arrangement"].bytes


def test_an_arrangement_holds_the_used_columns_only(lake):
    everything = chosen(lake, SCATTERED, query="SELECT * FROM upstream").estimates["arrangement"]
    keys = chosen(lake / "other", SCATTERED, query="SELECT id FROM upstream").estimates["arrangement"]
    assert keys.bytes == pytest.approx(everything.bytes / 3, rel=0.05)


def test_parallel_runs_are_more_applications_each_epoch(lake):
    cost = chosen(lake, IN_ORDER, rate_limit=20, parallelism=3).estimates["arrangement"]
    assert cost.spark_runs == 1 + 10 * (3 + 1), "one for the changes, and one for each part"
    assert cost.hours >= 11 * SECONDS_PER_RUN / 3600


@pytest.mark.parametrize(("files", "scans"), [(IN_ORDER, 1), (SCATTERED, 10)])
def test_what_is_looked_into_is_counted_file_by_file(lake, files, scans):
    """In place once over all epochs, or once in each of ten; an arrangement moves the table four times in all."""
    estimates = chosen(lake, files, rate_limit=20, query="SELECT * FROM upstream").estimates
    size = sum(path.stat().st_size for path in (lake / "orders").glob("*.parquet"))
    assert estimates["no_shuffle"].bytes == scans * size
    assert estimates["arrangement"].bytes == 4 * size


def test_a_column_that_vnodes_come_from_is_a_used_one(lake):
    def looked_into(folder, distribution_key):
        upstream = {"path": f"{folder}/orders", "key": ["id"], "distribution_key": distribution_key}
        choice = chosen(folder, IN_ORDER, upstream=upstream, query="SELECT id FROM upstream")
        return choice.estimates["arrangement"].bytes

    assert looked_into(lake / "two", ["amount"]) == pytest.approx(2 * looked_into(lake / "one", ["id"]), rel=0.01)


def test_parallel_runs_share_what_is_moved_and_each_epoch_takes_its_time(lake, monkeypatch):
    monkeypatch.setattr(strategy, "BYTES_PER_SECOND", 1)

    def cost(folder, parallelism):
        return chosen(folder, IN_ORDER, rate_limit=20, parallelism=parallelism).estimates["arrangement"]

    one, four = cost(lake / "one", 1), cost(lake / "four", 4)
    fixed = 11 * SECONDS_PER_RUN / 3600
    assert one.hours - fixed == pytest.approx(one.bytes / 3600, abs=0.002)
    assert four.hours - fixed == pytest.approx(four.bytes / 4 / 3600, abs=0.002)
