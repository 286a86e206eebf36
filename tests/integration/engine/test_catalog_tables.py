"""Jobs that name their tables in a catalog: Spark's own, in the tests' session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_backfill_provider.applications.connect import connected
from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import (
    CatalogError,
    InvalidJobError,
    JobNotCreatedError,
    LocationNotAllowedError,
    MaterializedViewError,
    UpstreamNotFoundError,
    UpstreamReplacedError,
)
from airflow_backfill_provider.core.job.sql import text_literal
from airflow_backfill_provider.core.remote import Remote
from airflow_backfill_provider.engine.named_tables import register_view
from airflow_backfill_provider.jobs import creation
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.lake.store.allowed_roots import ROOTS_VARIABLE
from airflow_backfill_provider.spark.catalog import Catalogs
from tests.dying import Died, dying_at
from tests.integration.engine.named_lakehouse import NamedLakehouse
from tests.variants import mostly_exhaustive_combinations

pytestmark = pytest.mark.spark


@pytest.fixture
def sales(spark: SparkSession, lake: Path) -> Iterator[NamedLakehouse]:
    schema = NamedLakehouse(spark, lake)
    schema.make_orders()
    yield schema
    schema.close()


def properties(sales: NamedLakehouse) -> dict[str, str]:
    """Return the properties of the view as the catalog shows them."""
    return {row.key: row.value for row in sales.sql(f"SHOW TBLPROPERTIES {sales.view_name}").collect()}


@pytest.mark.exhaustive
def test_names_are_resolved_once_and_epochs_keep_the_view_true(sales):
    """I1; the definition keeps the names, the settings have the locations, too."""
    settings = sales.create(rate_limit=5)
    assert settings.definition.upstream.location == f"{sales.folder}/sales/orders"
    assert (settings.definition.view_name, settings.definition.view_location) == (sales.view_name, sales.view_path)
    sales.finish()
    sales.sql("UPDATE {upstream} SET name = 'new' WHERE id < 3")
    sales.sql("DELETE FROM {upstream} WHERE id = 5")
    sales.finish()
    sales.assert_truth()
    sales.assert_equals_query("SELECT id, name, price * 2 AS twice, price AS euros FROM {upstream}")
    assert properties(sales)["backfill.finished"] == "true"
    by_name = sales.sql(f"SELECT * FROM {sales.view_name}")
    assert by_name.exceptAll(sales.view()).count() == 0
    assert by_name.count() == 8


@pytest.mark.exhaustive
def test_the_view_is_registered_with_comments_and_its_owner(sales):
    sales.create()
    described = sales.sql(f"DESCRIBE TABLE EXTENDED {sales.view_name}").collect()
    comments = {row.col_name: row.comment for row in described[:4]}
    assert "delta" in {row.data_type for row in described if row.col_name == "Provider"}
    assert comments == {"id": "the order", "name": None, "twice": None, "euros": "in euros"}
    assert properties(sales).items() >= {"backfill.owner": "tester", "backfill.finished": "false"}.items()


def test_a_job_that_names_its_tables_is_opened_again_without_spark(sales):
    sales.create()
    again = Backfill(sales.backfill.job)
    assert creation.is_created(again.job, again.store)
    assert again.require_created().definition.upstream.location == f"{sales.folder}/sales/orders"
    assert again.upstream.location == f"{sales.folder}/sales/orders"
    assert again.status().rows_estimated == 0
    before = again.store.settings_history()
    sales.create()
    assert again.store.settings_history() == before, "creating again is a no-op"


@pytest.mark.exhaustive
def test_before_its_creation_such_a_job_has_no_location(sales):
    backfill = sales.define()
    with pytest.raises(JobNotCreatedError, match=r"in a catalog.*create it first, or give upstream\.path"):
        backfill.upstream  # noqa: B018


def test_a_dropped_upstream_that_was_made_anew_elsewhere_is_refused_by_its_name(sales):
    """I6: the old table still lies at the pinned location, so only the name tells."""
    sales.sql("DROP TABLE {upstream}")
    sales.make_orders(at="first")
    sales.create(rate_limit=4)
    sales.epoch()
    sales.sql("DROP TABLE {upstream}")
    sales.make_orders(20, at="second")
    barrier = sales.inject()
    is_refused = pytest.raises(
        UpstreamReplacedError, match=rf"{sales.upstream} is another table .*second.*first.*rebuild"
    )
    with is_refused:
        sales.assert_truth()
    with is_refused:
        sales.run(barrier)
    assert sales.view().count() == 4
    settings = sales.rebuild(rate_limit=None)
    assert settings.definition.upstream.location == f"{sales.folder}/second"
    sales.finish()
    sales.assert_truth()
    assert sales.view().count() == 20


@pytest.mark.exhaustive
def test_a_dropped_upstream_that_was_made_anew_in_its_place_is_refused_without_spark(sales):
    """Its own log has another id."""
    sales.create(rate_limit=4)
    sales.epoch()
    sales.sql("DROP TABLE {upstream}")
    sales.make_orders(20)
    with pytest.raises(UpstreamReplacedError, match="rebuild"):
        sales.inject()


@pytest.mark.exhaustive
def test_an_upstream_that_is_dropped_between_injection_and_epoch_is_refused_by_its_name(sales):
    sales.create(rate_limit=4)
    barrier = sales.inject()
    sales.sql("DROP TABLE {upstream}")
    with pytest.raises(UpstreamNotFoundError, match=rf"there is no table {sales.upstream} any more.*rebuild the job"):
        sales.run(barrier)
    with pytest.raises(UpstreamNotFoundError, match=rf"{sales.upstream} lay there when the job was created"):
        sales.backfill.upstream.latest()
    sales.make_orders(20)
    with pytest.raises(UpstreamReplacedError, match=rf"{sales.upstream} is another table.*rebuild"):
        sales.run(barrier)


def test_a_view_whose_name_means_another_table_is_refused_before_anything_is_written(sales):
    sales.create(rate_limit=4)
    sales.epoch()
    sales.sql(f"DROP TABLE {sales.view_name}")
    sales.sql(
        f"CREATE TABLE {sales.view_name} (id BIGINT) USING delta LOCATION {text_literal(f'{sales.folder}/foreign')}"
    )
    barrier = sales.inject()
    with pytest.raises(MaterializedViewError, match=rf"{sales.view_name} means a table at .*foreign.*or rebuild"):
        sales.run(barrier)
    with pytest.raises(MaterializedViewError, match=rf"{sales.view_name} is another table, at .*foreign"):
        sales.rebuild()
    assert sales.view().count() == 4
    sales.sql(f"DROP TABLE {sales.view_name}")
    sales.run(barrier)
    assert sales.sql(f"SELECT * FROM {sales.view_name}").count() == 8, "the view got its name back"


@pytest.mark.exhaustive
def test_a_creation_that_died_before_the_view_had_its_name_is_completed_by_the_next_epoch(sales):
    crash_points.install(dying_at(CrashPoint.AFTER_CREATION_COMMIT))
    with pytest.raises(Died):
        sales.create(rate_limit=4)
    crash_points.install(None)
    sales.create(rate_limit=4)
    sales.epoch()
    assert sales.sql(f"SELECT * FROM {sales.view_name}").count() == 4


@pytest.mark.exhaustive
def test_an_engine_on_a_server_finds_and_checks_names_too(sales, spark_remote):
    """A session of Spark Connect, on the tests' Spark."""
    settings = sales.create(rate_limit=4)
    sales.sql(f"DROP TABLE {sales.view_name}")
    with connected(Remote.parse(spark_remote), what="names") as connection:
        catalogs = Catalogs(connection.spark)
        assert catalogs.find(f"{sales.schema}.nothing") is None
        with pytest.raises(CatalogError, match=r"nowhere\.sales\.orders cannot be looked up"):
            catalogs.find("nowhere.sales.orders")
        register_view(settings, catalogs)
        found = catalogs.find(sales.view_name)
        assert found is not None
        assert found.location == sales.view_path


@pytest.mark.exhaustive
def test_a_rebuilt_view_keeps_its_name_and_place(sales):
    sales.create()
    sales.finish()
    sales.rebuild(query="SELECT id FROM upstream")
    assert sales.sql(f"SELECT * FROM {sales.view_name}").columns == ["id"]
    sales.finish()
    sales.assert_truth()
    assert sales.sql(f"SELECT * FROM {sales.view_name}").count() == 9


def test_a_name_that_is_taken_is_refused_at_creation(sales):
    """I6: nothing is written."""
    sales.sql(f"CREATE TABLE {sales.view_name} (id BIGINT) USING delta")
    with pytest.raises(MaterializedViewError, match="holds another table"):
        sales.create()
    with pytest.raises(MaterializedViewError, match=rf"{sales.view_name} is another table, at .*sales/paid_orders"):
        sales.create(view_path=f"{sales.folder}/elsewhere")
    assert not sales.backfill.store.created()


@pytest.mark.exhaustive
def test_a_view_lies_where_the_job_says(sales):
    sales.view_path = f"{sales.folder}/elsewhere"
    sales.create(view_path=sales.view_path)
    sales.finish()
    assert sales.sql(f"DESCRIBE DETAIL {sales.view_name}").first().location == f"file:{sales.view_path}"
    sales.assert_truth()


@pytest.mark.exhaustive
def test_an_append_only_upstream_may_be_named(sales):
    sales.create(upstream={"table": sales.upstream, "append_only": True}, query="SELECT id, name FROM upstream")
    sales.finish()
    sales.sql("INSERT INTO {upstream} VALUES (100, 'x', 1)")
    sales.finish()
    assert sales.sql(f"SELECT * FROM {sales.view_name}").count() == 10


UNUSABLE = [
    ("upstream", "{schema}.nothing", UpstreamNotFoundError, "there is no table {schema}.nothing"),
    ("upstream", "spark_catalog.nowhere.orders", UpstreamNotFoundError, "no table spark_catalog.nowhere.orders"),
    ("upstream", "nowhere.sales.orders", CatalogError, "nowhere.sales.orders cannot be looked up"),
    ("upstream", "{schema}.csv", CatalogError, "{schema}.csv is a table of format csv"),
    ("upstream", "{schema}.saved", CatalogError, "{schema}.saved cannot be looked up"),
    ("materialized_view", "spark_catalog.nowhere.view", CatalogError, "create schema nowhere"),
    ("materialized_view", "nowhere.sales.view", CatalogError, "the catalog nowhere"),
    ("materialized_view", "{schema}.csv", CatalogError, "{schema}.csv is a table of format csv"),
]


@pytest.mark.parametrize(("field", "name", "error", "message"), mostly_exhaustive_combinations(UNUSABLE, [UNUSABLE[0]]))
def test_a_name_that_cannot_be_used_is_refused(sales, field, name, error, message):
    sales.sql(f"CREATE TABLE {sales.schema}.csv (id BIGINT) USING csv")
    sales.sql(f"CREATE VIEW {sales.schema}.saved AS SELECT * FROM {{upstream}}")
    full = name.format(schema=sales.schema)
    with pytest.raises(error) as raised:
        sales.create(**{field: {"table": full, "key": ["id"]} if field == "upstream" else full})
    assert message.format(schema=sales.schema) in str(raised.value)
    assert not sales.backfill.store.created()


@pytest.mark.exhaustive
def test_a_path_that_is_not_the_tables_is_refused(sales):
    with pytest.raises(InvalidJobError, match=r"upstream\.path: .*orders lies at .*sales/orders, not at /elsewhere"):
        sales.create(upstream={"table": sales.upstream, "path": "/elsewhere", "key": ["id"]})


def test_a_location_that_a_catalog_returns_must_be_allowed(sales, monkeypatch):
    monkeypatch.setenv(ROOTS_VARIABLE, f'["{sales.folder.parent}/state"]')
    with pytest.raises(LocationNotAllowedError, match=r"upstream\.path: .*sales/orders lies outside"):
        sales.create(state=f"{sales.folder.parent}/state/job")


@pytest.mark.exhaustive
def test_the_location_without_its_name_is_another_definition(sales):
    sales.create()
    with pytest.raises(InvalidJobError, match="with another materialized_view, upstream, view_path"):
        sales.create(
            upstream={"path": f"{sales.folder}/sales/orders", "key": ["id"]}, materialized_view=sales.view_path
        )
