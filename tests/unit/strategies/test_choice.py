"""Which strategy suits an upstream, from the statistics of its files alone."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.strategies.choice import choose_strategy
from airflow_backfill_provider.strategies.inputs import EPOCHS_OF_A_PAUSED_JOB
from tests.builders import Orders, job_of

IN_ORDER = [range(start, start + 20) for start in range(0, 200, 20)]
SCATTERED = [range(start, 200, 10) for start in range(10)]
NEIGHBOURS = [range(start, start + 40, 2) for start in range(0, 400, 20)]


@pytest.fixture(scope="module")
def upstreams(tmp_path_factory):
    """Makes an upstream of some files, once; nothing here writes to it."""
    made = {}

    def make(files):
        if str(files) not in made:
            orders = Orders(tmp_path_factory.mktemp("orders"))
            for ids in files:
                orders.add(*ids)
            made[str(files)] = orders.table
        return made[str(files)]

    return make


@pytest.fixture
def chosen(upstreams):
    """Chooses the strategy of a job over an upstream of some files."""

    def choose(files, *, key=("id",), **job):
        table = upstreams(files)
        return choose_strategy(job_of(upstream={"path": table.location, "key": key}, **job), table, table.at())

    return choose


@pytest.mark.parametrize(
    ("rate_limit", "strategy", "said"),
    [
        (None, "no_shuffle", "one epoch reads everything in place"),
        (200, "no_shuffle", "one epoch reads everything in place"),
        (100, "no_shuffle", "statistics bound each chunk: 200 of 200 rows"),
        (50, "no_shuffle", "statistics bound each chunk"),  # four times a chunk is not too much to scan
        (49, "arrangement", "statistics cannot bound a chunk"),
    ],
)
def test_files_in_random_order_are_arranged_if_an_epoch_scans_too_much_for_its_chunk(
    chosen, rate_limit, strategy, said
):
    choice = chosen(SCATTERED, rate_limit=rate_limit)
    assert (choice.strategy.name, said in choice.reason) == (strategy, True)


@pytest.mark.parametrize("files", [SCATTERED, IN_ORDER])
def test_files_are_read_as_they_are_if_changes_may_wait(chosen, files):
    choice = chosen(files, visibility="on_finish", rate_limit=10)
    assert (choice.strategy.name, {*choice.estimates}) == ("snapshot", {"snapshot", "no_shuffle", "arrangement"})
    assert "so history is read as it lies in the files" in choice.reason
    assert "snapshot" not in chosen(files, rate_limit=10).estimates


def test_files_in_key_order_are_read_in_place(chosen):
    choice = chosen(IN_ORDER, rate_limit=20)
    assert choice.strategy.name == "no_shuffle"
    assert choice.reason == (
        "chosen by auto, because the files' statistics bound each chunk: 0 of 200 rows lie in files that overlap "
        "others in id"
    )


def test_keys_in_random_order_are_arranged(chosen):
    choice = chosen(SCATTERED, rate_limit=20)
    assert choice.strategy.name == "arrangement"
    assert "statistics cannot bound a chunk: 200 of 200 rows" in choice.reason


def test_files_that_overlap_only_their_neighbours_are_read_in_place(chosen):
    assert chosen(NEIGHBOURS, rate_limit=40).strategy.name == "no_shuffle"


def test_an_empty_upstream_is_read_in_place(chosen):
    assert chosen([[]], rate_limit=1).strategy.name == "no_shuffle"


def test_a_job_that_begins_paused_is_not_taken_for_one_epoch(chosen):
    choice = chosen(SCATTERED, rate_limit=0)
    assert choice.strategy.name == "arrangement"
    assert choice.estimates[choice.strategy.name].epochs == EPOCHS_OF_A_PAUSED_JOB


def test_parallel_task_runs_need_their_own_vnodes(chosen):
    choice = chosen(IN_ORDER, rate_limit=20, parallelism=2)
    assert choice.strategy.name == "arrangement"
    assert "2 parallel task runs" in choice.reason


@pytest.mark.parametrize("strategy", ["no_shuffle", "arrangement"])
def test_what_the_job_asks_for_is_chosen(chosen, strategy):
    choice = chosen(SCATTERED, rate_limit=20, strategy=strategy)
    assert (choice.strategy.name, choice.reason) == (strategy, "the job asks for it")


def test_only_the_leading_column_of_the_key_decides(chosen):
    """Files are skipped by it alone."""
    assert chosen(IN_ORDER, rate_limit=20, key=("status", "id")).strategy.name == "arrangement"


# --- the estimates --------------------------------------------------------------------------------


def test_both_strategies_are_estimated_whichever_is_chosen(chosen):
    estimates = chosen(IN_ORDER, rate_limit=20).estimates
    assert set(estimates) == {"no_shuffle", "arrangement"}
    assert {cost.rows for cost in estimates.values()} == {200}
    assert {cost.epochs for cost in estimates.values()} == {10}
    assert {cost.spark_runs for cost in estimates.values()} == {11}
    assert estimates["no_shuffle"].bytes < estimates["arrangement"].bytes


def test_scanning_scattered_files_in_every_epoch_costs_more_than_arranging_them_once(chosen):
    estimates = chosen(SCATTERED, rate_limit=10).estimates
    assert estimates["no_shuffle"].bytes > estimates["arrangement"].bytes


@pytest.mark.parametrize(("files", "scans"), [(IN_ORDER, 1), (SCATTERED, 10)])
def test_what_is_looked_into_is_counted_file_by_file(chosen, upstreams, files, scans):
    """In place once over all epochs, or once in each of ten; an arrangement moves the table four times in all."""
    estimates = chosen(files, rate_limit=20, query="SELECT * FROM upstream").estimates
    table = upstreams(files)
    size = table.files_at(table.latest()).size()
    assert estimates["no_shuffle"].bytes == scans * size
    assert estimates["arrangement"].bytes == 4 * size


GROUPS = "SELECT status, count(*) AS n FROM upstream GROUP BY status"


@pytest.mark.parametrize(
    ("job", "strategy", "said"),
    [
        ({}, "snapshot", "changes may wait until the view is finished"),
        ({"visibility": "every_epoch"}, "arrangement", "visibility: a view of shape group has on_finish only under"),
        ({"rate_limit": 50}, "arrangement", "one epoch that reads all of history"),
        ({"parallelism": 2}, "arrangement", "2 task runs cannot write a view of shape group together"),
        ({"query": "SELECT count(*) AS n FROM upstream"}, "snapshot", "changes may wait"),
    ],
)
def test_groups_are_read_at_once_unless_the_job_asks_for_more(chosen, job, strategy, said):
    """The reason names the field, for users who want the other strategy."""
    choice = chosen(IN_ORDER, **{"query": GROUPS, **job})
    assert (choice.strategy.name, said in choice.reason) == (strategy, True), choice.reason


def test_more_rows_than_one_epoch_should_group_are_read_group_by_group(chosen, monkeypatch):
    """One group alone cannot be read in parts, however large it is."""
    monkeypatch.setattr("airflow_backfill_provider.strategies.choice.MOST_ROWS_AT_ONCE", 199)
    choice = chosen(IN_ORDER, query=GROUPS)
    assert choice.strategy.name == "arrangement"
    assert "strategy snapshot would group all of 200 rows in one epoch" in choice.reason
    assert chosen(IN_ORDER, query="SELECT count(*) AS n FROM upstream").strategy.name == "snapshot"
