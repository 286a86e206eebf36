"""Cut-overs that wait for an approval, and the difference that is shown before, on real Spark and Delta: I1, I2, I7."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import InvalidJobError, UpstreamNotFinishedError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.status.job_condition import JobCondition
from airflow_backfill_provider.core.status.view_difference import RowChange, RowDifference, ViewAt
from airflow_backfill_provider.jobs import changed_query, cut_over, revert
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.verification.view_differences import ShownDifference, compare_waiting
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.tables.view_identity import FINISHED_PROPERTY, view_properties
from tests.dying import dies_at
from tests.integration.engine.grouped_orders import make_orders
from tests.integration.engine.lakehouse import TESTER, Lakehouse
from tests.integration.engine.succeeding import grow, growing, grown, step

pytestmark = pytest.mark.spark

FORMER = "SELECT id, name, price FROM upstream"
LATTER = "SELECT id, name, price * 2 AS price, upper(name) AS loud FROM upstream WHERE id <> 3"
GATED = {"cut_over": "on_approval"}

Row = Mapping[str, Any]


def served(lake: Lakehouse, **fields: Any) -> Lakehouse:
    """Make a finished view."""
    lake.create(**fields)
    lake.finish()
    protocol.finish_job(store=lake.backfill.store, requested_by="tester")
    return lake


def compared(lake: Lakehouse) -> ShownDifference:
    """Compare what waits with the view that serves."""
    return compare_waiting(lake.backfill, comparer=lake.engine.view_comparer, requester=TESTER)


def approve(lake: Lakehouse) -> None:
    """Look at the difference of what waits, and approve it."""
    cut_over.approve(compared(lake).recorded, store=lake.backfill.store, approved_by="vera")


def rows_of(view: ViewAt) -> list[Row]:
    location = view.settings.definition.view_location
    return list(DeltaTable(location, version=view.version).to_pyarrow_table().to_pylist())


def is_finished(lake: Lakehouse) -> bool:
    return (view_properties(lake.view_path) or {})[FINISHED_PROPERTY] == "true"


def by_hand(before: Sequence[Row], after: Sequence[Row], key: str, columns: Sequence[str]) -> dict[str, Any]:
    """Return the difference of two tables, each with one row for a key, worked out in plain Python."""
    old, new = ({row[key]: row for row in rows} for rows in (before, after))
    both = [(old[name], new[name]) for name in old if name in new]
    unlike = {name: sum(one[name] != other[name] for one, other in both) for name in columns}
    return {
        "rows_before": len(before),
        "rows_after": len(after),
        "added": len(new.keys() - old.keys()),
        "removed": len(old.keys() - new.keys()),
        "changed": sum(any(one[name] != other[name] for name in columns) for one, other in both),
        "columns": {name: count for name, count in unlike.items() if count},
    }


def numbers_of(rows: RowDifference) -> dict[str, Any]:
    return rows.model_dump(include={"rows_before", "rows_after", "added", "removed", "changed", "columns"})


@pytest.mark.exhaustive
def test_a_rebuild_waits_stays_fresh_and_takes_the_place_after_its_approval(numbers: Lakehouse) -> None:
    """I2, I7: the difference is that of two whole views; the approval survives later epochs and a crash."""
    lake = served(numbers, query=FORMER)
    first = lake.backfill.settings()
    grow(lake, query=LATTER, **GATED)
    grown(lake)
    shown = compared(lake)
    assert_is_that_of_both_views(lake, shown)
    lake.change("UPDATE {upstream} SET price = 50 WHERE id = 4")
    lake.epoch()
    assert step(lake), "it is kept fresh while it waits"
    assert lake.inject() is None
    assert lake.backfill.settings().incarnation == first.incarnation
    status = lake.backfill.status()
    assert status.finished
    assert status.rebuild is not None
    assert status.rebuild.condition is JobCondition.READY
    lake.assert_equals_query(FORMER.replace("upstream", "{upstream}"))

    cut_over.approve(shown.recorded, store=lake.backfill.store, approved_by="vera")
    lake.change("DELETE FROM {upstream} WHERE id = 5")
    step(lake)
    version = DeltaLog(lake.view_path).newest().version
    with dies_at(CrashPoint.AFTER_SUCCESSION_STATE):
        lake.inject()
    with dies_at(CrashPoint.AFTER_CREATION_COMMIT):
        lake.epoch()
    lake.finish()
    lake.assert_equals_query(LATTER.replace("upstream", "{upstream}"))
    lake.assert_truth()
    log = DeltaLog(lake.view_path)
    written = [commit for number in log.versions() if number > version and (commit := log.commit(number))]
    assert sum(commit.changes_data for commit in written) == 1, "one commit replaces the rows"
    settings = protocol.finish_job(store=lake.backfill.store, requested_by="tester")
    assert settings.approved is not None
    assert settings.approved.subject.incarnation == settings.incarnation
    assert settings.approved.versions == shown.recorded.sides.model_dump(mode="json")
    revert.put_back(lake.backfill.store, engine=lambda: lake.engine, requested_by="tester")
    lake.finish()
    lake.assert_equals_query(FORMER.replace("upstream", "{upstream}"))


def assert_is_that_of_both_views(lake: Lakehouse, shown: ShownDifference) -> None:
    """Compare a difference with what plain Python finds in both tables; values are told on request."""
    assert shown.recorded.sides.at_one_point
    sides = shown.sides
    assert sides.served is not None
    assert isinstance(sides.waiting, ViewAt)
    expected = by_hand(rows_of(sides.served), rows_of(sides.waiting), "id", ["name", "price"])
    found = shown.recorded.rows
    assert numbers_of(found) == expected
    assert expected["columns"] == {"price": 7}, "0 is 0 if it is doubled"
    assert (found.columns_added, found.columns_removed, found.columns_retyped) == (("loud",), (), ())
    assert [(key.kind, key.key) for key in found.sample if key.kind is RowChange.REMOVED] == [("removed", ("3",))]
    values = {one.key: one for one in shown.values(lake.engine.view_comparer())}
    assert (values[("3",)].before[0]["price"], values[("3",)].after) == ("3.0", ())
    assert (values[("4",)].before[0]["price"], values[("4",)].after[0]["price"]) == ("4.0", "8.0")
    assert "8.0" not in shown.recorded.model_dump_json()


@pytest.mark.exhaustive
def test_a_changed_query_is_compared_as_of_the_views_epoch_and_approved_or_void(numbers: Lakehouse) -> None:
    """I1, I2: what the new query gives at the view's own offset, though the upstream went on and nothing is written."""
    lake = served(numbers, query="SELECT id, name, price FROM upstream WHERE price < 6")
    before = {row["id"]: row for row in lake.view().collect()}
    latter = "SELECT id, if(id = 5, 'five', name) AS name, price FROM upstream WHERE price > 2"
    version = DeltaLog(lake.view_path).newest().version

    def propose(query: str) -> None:
        assert lake.job is not None
        lake.define(**{**lake.job.fields, "query": query, **GATED, "upstream": lake.job.upstream})
        lake.start_job(changed_query.change_query, lake.backfill)

    propose(latter)
    lake.change("DELETE FROM {upstream} WHERE id = 8")
    shown = compared(lake)
    found = shown.recorded.rows
    assert numbers_of(found) == {
        "rows_before": 6,
        "rows_after": 6,
        "added": 3,
        "removed": 3,
        "changed": 1,
        "columns": {"name": 1},
    }
    assert [(key.kind, key.key) for key in found.sample] == [
        *(("removed", (str(number),)) for number in range(3)),
        ("changed", ("5",)),
        *(("added", (str(number),)) for number in range(6, 9)),
    ]
    assert shown.values(lake.engine.view_comparer())[3].after[0]["name"] == "five"
    assert DeltaLog(lake.view_path).newest().version == version
    propose("SELECT id, name, price FROM upstream WHERE price > 3")
    with pytest.raises(InvalidJobError, match="of another definition"):
        cut_over.approve(shown.recorded, store=lake.backfill.store, approved_by="vera")
    propose(latter)
    lake.epoch()
    assert {row["id"]: row for row in lake.view().collect()} == before, "epochs go on with the former query"
    approve(lake)
    with dies_at(CrashPoint.AFTER_CHANGES_COMMIT):
        lake.epoch()
    lake.finish()
    lake.assert_equals_query(latter.replace("upstream", "{upstream}"))
    lake.assert_truth()


@pytest.mark.exhaustive
def test_groups_are_compared_by_their_keys_and_without_their_hidden_state(lakehouse: Lakehouse) -> None:
    make_orders(lakehouse)
    query = "SELECT customer, count(*) AS n, avg(amount) AS mean FROM upstream {} GROUP BY customer"
    lake = served(lakehouse, query=query.format(""))
    grow(lake, query=query.format("WHERE product <> 'p1' AND customer <> 'c4'"), **GATED)
    grown(lake)
    shown = compared(lake)
    sides = shown.sides
    assert sides.served is not None
    assert isinstance(sides.waiting, ViewAt)
    found = shown.recorded.rows
    assert numbers_of(found) == by_hand(
        rows_of(sides.served), rows_of(sides.waiting), "customer", ["customer", "n", "mean"]
    )
    assert (found.added, found.removed, found.changed, found.columns["n"]) == (0, 1, 4, 4)
    assert (found.columns_added, found.columns_removed) == ((), ())
    assert not any(name.startswith("__") for name in found.columns)


def job_over(lake: Lakehouse) -> BackfillJob:
    """Return a job over the view."""
    return BackfillJob(
        name="reader",
        upstream={"path": lake.view_path, "key": ["id"]},
        materialized_view=f"{lake.folder}/read",
        query="SELECT id FROM upstream",
    )


@pytest.mark.exhaustive
def test_a_first_backfill_is_ready_and_marked_as_finished_by_the_epoch_after_its_approval(numbers: Lakehouse) -> None:
    """The property, and with it the change feed and every chain, wait; the rows are kept fresh."""
    numbers.create(query=FORMER, **GATED)
    numbers.finish()
    numbers.change("UPDATE {upstream} SET price = 50 WHERE id = 4")
    numbers.finish()
    numbers.assert_truth()
    assert not is_finished(numbers)
    reader = Backfill(job_over(numbers))
    with pytest.raises(UpstreamNotFinishedError):
        reader.require_finished_upstream()
    shown = compared(numbers)
    assert numbers_of(shown.recorded.rows) == {
        "rows_before": 0,
        "rows_after": 9,
        "added": 9,
        "removed": 0,
        "changed": 0,
        "columns": {},
    }
    cut_over.approve(shown.recorded, store=numbers.backfill.store, approved_by="vera")
    with dies_at(CrashPoint.BEFORE_LOG_COMMIT):
        numbers.epoch()
    assert is_finished(numbers)
    (commit,) = numbers.finish()
    assert commit.is_finished
    reader.require_finished_upstream()
    numbers.change("UPDATE {upstream} SET price = 51 WHERE id = 4")
    numbers.finish()
    numbers.assert_truth()
    assert is_finished(numbers)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("former", "latter", "told"),
    [
        (
            "SELECT id, name, price FROM upstream",
            "SELECT name, sum(price) AS price FROM upstream GROUP BY name",
            {"added": 0, "removed": 0, "changed": 0, "has_key": True},
        ),
        (
            "SELECT name, sum(price) AS price FROM upstream GROUP BY name",
            "SELECT id, price FROM upstream",
            {"added": 0, "removed": 0, "has_key": False},
        ),
        (
            "SELECT id, name, price FROM upstream",
            "SELECT id, name, CAST(price AS STRING) AS price FROM upstream",
            {"added": 0, "removed": 0, "changed": 0, "columns_retyped": ("price",)},
        ),
        (
            "SELECT id, name, price FROM upstream",
            "SELECT upper(name) AS loud, count(*) AS n FROM upstream GROUP BY upper(name)",
            {"added": 9, "removed": 9, "columns_removed": ("id", "name", "price"), "has_key": False},
        ),
    ],
    ids=["rows become groups", "groups become rows", "another type", "nothing in common"],
)
def test_views_with_other_columns_are_compared_as_far_as_they_can_be(
    numbers: Lakehouse, former: str, latter: str, told: dict[str, Any]
) -> None:
    lake = served(numbers, query=former)
    grow(lake, query=latter, **GATED)
    grown(lake)
    found = compared(lake).recorded.rows
    assert {name: getattr(found, name) for name in told} == told
    assert (found.rows_before, found.rows_after) == (9, 9)


@pytest.mark.exhaustive
def test_a_view_that_is_computed_whole_is_compared_by_whole_rows(numbers: Lakehouse) -> None:
    query = "SELECT id, price, rank() OVER (ORDER BY price) AS place FROM upstream"
    lake = served(numbers, query=query, refresh="full")
    grow(lake, query=f"{query} WHERE id <> 8", refresh="full", **GATED)
    grown(lake)
    found = compared(lake).recorded.rows
    assert (found.has_key, found.added, found.removed) == (False, 0, 1)
    assert (found.rows_before, found.rows_after) == (9, 8)


@pytest.mark.exhaustive
def test_another_rebuild_voids_an_approval(numbers: Lakehouse) -> None:
    lake = served(numbers, query=FORMER)
    grow(lake, query=LATTER, **GATED)
    grown(lake)
    approve(lake)
    revert.give_up_successor(lake.backfill.store, requested_by="tester")
    grow(lake, query=LATTER, **GATED)
    grown(lake)
    lake.change("UPDATE {upstream} SET price = 50 WHERE id = 4")
    lake.finish()
    lake.assert_equals_query(FORMER.replace("upstream", "{upstream}"))
    assert growing(lake).store.created()
