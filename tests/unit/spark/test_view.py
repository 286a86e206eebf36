"""What is decided about the view and the arrangement before Spark is needed."""

from __future__ import annotations

from typing import cast

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from airflow_backfill_provider.core.errors import MaterializedViewError
from airflow_backfill_provider.core.scan.table_version import TableVersion
from airflow_backfill_provider.lake.tables.view_identity import (
    FINISHED_PROPERTY,
    INCARNATION_PROPERTY,
    JOB_PROPERTY,
    ViewIdentity,
)
from airflow_backfill_provider.spark.stamped_table import StampedTable
from airflow_backfill_provider.spark.view import MaterializedView
from tests.builders import barrier_of

NO_SPARK = cast("SparkSession", None)
IDENTITY = ViewIdentity("paid_orders", "a1")


@pytest.fixture
def view(lake):
    """The view of an incarnation, at version 0."""
    path = str(lake / "view")
    properties = {JOB_PROPERTY: IDENTITY.job, INCARNATION_PROPERTY: IDENTITY.incarnation}
    DeltaTable.create(path, pa.schema([("id", pa.int64())]), configuration=properties, raise_if_key_not_exists=False)
    return MaterializedView(NO_SPARK, path)


def test_a_view_that_was_not_replaced_is_accepted(view):
    assert view.require_ours(IDENTITY, barrier_of(2), TableVersion(version=0)).version == 0
    assert view.require_ours(IDENTITY, barrier_of(2), None).version == 0


def test_a_view_from_an_older_copy_is_refused(view):
    """All its commits are the job's own; only the version shows that rows are missing."""
    with pytest.raises(MaterializedViewError, match="is at version 0, but epoch 1 left it at version 9; the table was"):
        view.require_ours(IDENTITY, barrier_of(2), TableVersion(version=9))


def test_a_view_of_another_incarnation_is_refused(view):
    with pytest.raises(MaterializedViewError, match="is no longer the view of job paid_orders"):
        view.require_ours(ViewIdentity("paid_orders", "b2"), barrier_of(2), TableVersion(version=0))


def test_only_commits_since_the_last_epoch_are_checked(view):
    """Version 0 has no stamp of the job, but the epoch that left the view there has checked it."""
    view.table.require_untouched(IDENTITY, barrier_of(2), TableVersion(version=0))
    with pytest.raises(MaterializedViewError, match="version 0 of .* was not written by job paid_orders"):
        view.table.require_untouched(IDENTITY, barrier_of(2), None)


@pytest.mark.parametrize(
    ("job", "incarnations"),
    [("paid_orders", set()), ("paid_orders", {"b2"}), ("all_orders", {"a1"}), ("all_orders", set())],
)
def test_a_view_is_only_usable_for_its_own_job_and_incarnations(view, job, incarnations):
    assert view.require_usable("paid_orders", frozenset({"a1", "b2"})) == IDENTITY
    with pytest.raises(MaterializedViewError, match="holds a view of job paid_orders"):
        view.require_usable(job, frozenset(incarnations))


def test_an_existing_view_is_not_created_again(view):
    """That needs no Spark. Nor does marking a view that is finished already, or of another incarnation."""
    view.ensure(StructType(), IDENTITY, {}, {})
    view.mark_finished(ViewIdentity("paid_orders", "b2"), 3)
    DeltaTable(view.path).alter.set_table_properties({FINISHED_PROPERTY: "true"}, raise_if_not_exists=False)
    view.mark_finished(IDENTITY, 3)
    assert DeltaTable(view.path).version() == 1


def test_every_transaction_of_a_zombie_is_used_up_before_its_view_is_replaced(view, monkeypatch):
    """I5: the four steps of changes, and a part for each task run of the highest parallelism so far."""
    done = []
    monkeypatch.setattr(StampedTable, "burn_transaction", lambda _, transaction: done.append(transaction))

    def replace(_: StampedTable, statement: str, identity: ViewIdentity, *, order: int) -> None:
        done.append(f"{statement.split(maxsplit=1)[0]} {identity.incarnation} {order}")
        metadata = {INCARNATION_PROPERTY: identity.incarnation}
        DeltaTable(view.path).alter.set_table_properties(metadata, raise_if_not_exists=False)

    monkeypatch.setattr(StampedTable, "create_once", replace)
    made = ViewIdentity("paid_orders", "b2")
    view._spark = cast("SparkSession", Catalog())
    view.ensure(StructType(), made, {"a0": 7, "a1": 3}, {})

    of_a_zombie = "airflow-backfill/paid_orders/a1/"
    assert done == [
        f"{of_a_zombie}changes-removal",
        f"{of_a_zombie}changes",
        f"{of_a_zombie}repair",
        f"{of_a_zombie}snapshot/0",
        f"{of_a_zombie}snapshot/1",
        f"{of_a_zombie}snapshot/2",
        "REPLACE b2 3",
    ]


class Catalog:
    """A session and a frame with temporary views."""

    def createDataFrame(self, data: list[object], schema: StructType) -> Catalog:  # noqa: N802 - Spark's name
        del data, schema
        return self

    @property
    def catalog(self) -> Catalog:
        return self

    def createOrReplaceTempView(self, name: str) -> None:  # noqa: N802 - Spark's name
        pass

    def dropTempView(self, name: str) -> None:  # noqa: N802 - Spark's name
        pass


def test_a_view_that_can_only_be_appended_to_is_refused_before_anything_is_written(view):
    """I6: the view's owner set it, and Delta's own error names a table called null."""
    DeltaTable(view.path).alter.set_table_properties({"delta.appendOnly": "true"}, raise_if_not_exists=False)
    with pytest.raises(MaterializedViewError, match=r"UNSET TBLPROPERTIES \('delta.appendOnly'\)") as caught:
        view.require_ours(IDENTITY, barrier_of(2), None)
    assert view.path in str(caught.value)
    DeltaTable(view.path).alter.set_table_properties({"delta.appendOnly": "false"}, raise_if_not_exists=False)
    view.require_ours(IDENTITY, barrier_of(2), None)


def test_an_error_says_that_columns_were_changed(view):
    """A repair of rows would not help."""
    new = Schema.from_json(
        '{"type":"struct","fields":[{"name":"note","type":"string","nullable":true,"metadata":{}}]}'
    ).fields
    DeltaTable(view.path).alter.add_columns(new)
    with pytest.raises(
        MaterializedViewError, match=r"version 1 .*changed the table's columns.*rebuild the job"
    ) as caught:
        view.table.require_untouched(IDENTITY, barrier_of(2), TableVersion(version=0))
    assert "repair" not in str(caught.value)
