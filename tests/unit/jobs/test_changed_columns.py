"""A changed query that gives a finished view other columns: what is refused, what is pinned, and when they come."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import InvalidJobError, QueryFailedError, UpstreamSchemaChangedError
from airflow_backfill_provider.core.job.definition_change import ColumnsChange
from airflow_backfill_provider.jobs import changed_query
from airflow_backfill_provider.jobs.changed_columns import columns_missed_by, require_other_columns
from airflow_backfill_provider.lake.log.schemas import HIDDEN
from airflow_backfill_provider.lake.tables.view_table import ViewTable
from tests.builders import PAID, job_of, settings_of
from tests.dying import died
from tests.property.backfilling import Backfilling
from tests.property.memory_queries import EVERYTHING, ONLY_PAID
from tests.unit.jobs.test_changed_query import POINTS, add_note, change, inject, rows_of, run
from tests.variants import mostly_exhaustive

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


def columns_of(backfilling: Backfilling) -> list[str]:
    return [field.name for field in DeltaTable(backfilling.job.view_location).schema().fields]


def retype_amount(backfilling: Backfilling) -> None:
    """Widen a column of the upstream, as another engine does."""
    table = DeltaTable(backfilling.orders.path)
    rows = table.to_pyarrow_table()
    wide = rows.schema.set(rows.schema.get_field_index("amount"), pa.field("amount", pa.decimal128(20)))
    write_deltalake(table, rows.cast(wide), mode="overwrite", schema_mode="overwrite")


def test_a_column_that_is_newer_than_the_view_is_read_with_all_rows(served):
    """No change that an epoch reads from before shows it, so the epoch computes the whole view."""
    add_note(served)
    change(served, query=f"{EVERYTHING} WHERE note IS NULL")
    barrier = inject(served)
    assert (barrier.filter_change, barrier.columns_change, barrier.computes_whole) == (None, None, True)
    assert barrier.refresh.reason == "no change before shows what the query uses now (column 'note' is gone)"


def test_other_columns_are_pinned_and_come_with_one_write_of_all_rows(served):
    served.orders.change([3], status="draft")
    settings = change(served, query=PAID)
    assert [column.name for column in settings.view_columns] == ["id", "cents"]
    barrier = inject(served)
    assert barrier.columns_change == ColumnsChange(added=("cents",), dropped=("status", "amount"))
    assert barrier.computes_whole
    assert "added: cents; dropped: status, amount" in barrier.refresh.reason
    run(served, barrier)
    assert sorted(served.view.rows) == rows_of(served, PAID)
    assert columns_of(served) == ["id", "cents"]
    served.orders.change([2], status="draft")
    following = inject(served)
    assert (following.columns_change, following.refresh) == (None, None)


def test_columns_that_a_pinned_epoch_brings_count_for_the_change_after_it(served):
    """I2: the table has the former ones still, and will not when the second change takes effect."""
    change(served, query=PAID)
    barrier = inject(served)
    change(served, query=ONLY_PAID)
    assert inject(served) == barrier
    run(served, barrier)
    following = inject(served)
    assert following.columns_change == ColumnsChange(added=("status", "amount"), dropped=("cents",))
    run(served, following)
    assert columns_of(served) == ["id", "status", "amount"]
    assert sorted(served.view.rows) == rows_of(served, ONLY_PAID)


def test_columns_that_no_epoch_brought_are_not_those_of_the_view(served):
    """Of two changes before an epoch, only the last one counts; the view keeps its columns."""
    change(served, query=PAID)
    change(served, query=ONLY_PAID)
    barrier = inject(served)
    assert barrier.filter_change is not None
    assert barrier.columns_change is None


@pytest.mark.parametrize("point", mostly_exhaustive(POINTS, [CrashPoint.AFTER_CHANGES_COMMIT]))
def test_an_epoch_of_other_columns_that_dies_is_done_again(served, point):
    served.orders.change([2, 5], status="draft")
    change(served, query=PAID)

    def epoch():
        run(served, inject(served))

    assert died(point, epoch)
    epoch()
    assert sorted(served.view.rows) == rows_of(served, PAID)
    assert columns_of(served) == ["id", "cents"]


def test_an_epoch_of_other_columns_that_was_given_up_is_tried_again(served):
    change(served, query=PAID)
    engine = served.engine()
    engine.refusal = QueryFailedError("it fails on a row")
    with pytest.raises(QueryFailedError):
        protocol.run_epoch(inject(served), store=served.store, engine=engine, clock=served.clock)
    given_up = served.store.barriers()[-1]
    assert (given_up.columns_change, given_up.computes_whole) == (None, False)
    following = inject(served)
    assert following.columns_change is not None
    run(served, following)
    assert sorted(served.view.rows) == rows_of(served, PAID)


def test_the_same_query_is_made_anew_once_a_column_that_it_uses_has_another_type(served):
    """The definition is in force, but no epoch can read the upstream with it."""
    assert changed_query.propose_change(served.job, store=served.store, upstream=served.orders.table).is_known
    retype_amount(served)
    with pytest.raises(UpstreamSchemaChangedError, match="run airflow-backfill change"):
        inject(served)
    proposed = changed_query.propose_change(served.job, store=served.store, upstream=served.orders.table)
    assert proposed.change.reason == (
        "the query's columns have changed in the upstream: column 'amount' was long and is decimal(20,0)"
    )
    settings = change(served)
    assert settings.upstream.types["amount"] == "decimal(20,0)"
    assert change(served) == settings
    barrier = inject(served)
    assert barrier.computes_whole


def test_the_state_of_groups_is_compared_like_any_column(served):
    """A view that keeps such a state loses it with a query that needs none."""
    hidden = Field("__fold_rows", PrimitiveType("long"), metadata={HIDDEN: True})
    DeltaTable(served.job.view_location).alter.add_columns([hidden])
    change(served, query=ONLY_PAID)
    assert inject(served).columns_change == ColumnsChange(dropped=("__fold_rows",))


def refusal(change: ColumnsChange, types: dict[str, str], **table) -> str:
    """Return why a view with some table cannot get other columns."""
    held = settings_of(job_of())
    columns = [{"name": name, "type": kind} for name, kind in types.items()]
    latter = held.model_validate({**held.model_dump(mode="json"), "view_columns": columns})
    found = ViewTable(**{"types": {}, "added": {}, "properties": {}, "features": frozenset(), **table})
    with pytest.raises(InvalidJobError) as caught:
        require_other_columns(held, latter, change, found)
    return str(caught.value)


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({"features": frozenset({"clustering"})}, "no longer cluster the table"),
        ({"properties": {"delta.columnMapping.mode": "name"}}, "which maps the names of columns; rebuild the job"),
        ({"added": {"id": "a default"}}, "the column id of the table at .* has a default, which would be lost"),
        (
            {"properties": {"delta.constraints.dear": "Price > 0"}},
            "constraint dear is about one of them; drop it",
        ),
        ({"properties": {"delta.dataSkippingStatsColumns": "id, `price`"}}, "StatsColumns names price"),
    ],
)
def test_what_hangs_on_the_former_columns_is_named_before_anything_is_written(table, why):
    said = refusal(ColumnsChange(dropped=("price",)), {"id": "long"}, **table)
    assert re.search(why, said)
    assert said.startswith("query: it gives the view other columns (dropped: price), and ")


@pytest.mark.parametrize(
    ("name", "kind", "why"),
    [
        ("at", "timestamp_ntz", r"does not allow the type of the column at \(timestamp_ntz\)"),
        ("some name", "long", "the name `some name` needs column mapping"),
        ("place", '{"type": "struct", "fields": [{"name": "x=y", "type": "long"}]}', "the name `x=y` needs column map"),
        ("_Change_Type", "string", "_Change_Type is a column of the table's change data feed"),
    ],
)
def test_columns_that_the_table_cannot_have_are_named(name, kind, why):
    feed = {"delta.enableChangeDataFeed": "true"}
    assert re.search(why, refusal(ColumnsChange(added=(name,)), {name: kind}, properties=feed))


def test_a_constraint_of_columns_that_stay_refuses_nothing():
    held = settings_of(job_of())
    properties = {"delta.constraints.dear": "price > 0", "delta.dataSkippingStatsColumns": "id"}
    table = ViewTable(types={}, added={}, properties=properties, features=frozenset())
    require_other_columns(held, held, ColumnsChange(dropped=("name",)), table)


def test_the_columns_that_a_job_downstream_misses_are_named():
    writer = job_of(materialized_view="/lake/first")
    reader = settings_of(job_of(upstream={"path": "/lake/first", "key": ["id"]}), types={"id": "long", "price": "long"})
    change = ColumnsChange(added=("id2",), dropped=("name", "price"), retyped={"id": "long to string"})
    assert columns_missed_by(reader, writer, change) == ["price", "id"]
    assert columns_missed_by(reader, job_of(materialized_view="/lake/other"), change) == []
