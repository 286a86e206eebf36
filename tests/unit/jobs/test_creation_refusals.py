"""What creating a job refuses: checked whole before anything is written."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from airflow_backfill_provider.core.errors import (
    ChangeDataFeedDisabledError,
    DuplicateKeyError,
    InvalidJobError,
    MaterializedViewError,
    UpstreamError,
    UpstreamNotFoundError,
    UpstreamSchemaChangedError,
)
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.jobs import creation
from airflow_backfill_provider.sources.description import UpstreamDescription
from airflow_backfill_provider.state.store import BackfillStore
from tests.builders import PAID, write_table
from tests.property.backfilling import Backfilling
from tests.unit.jobs import creation_helpers
from tests.unit.jobs.creation_helpers import files_of, upstream

backfilling = creation_helpers.backfilling
prepared = creation_helpers.prepared
created = creation_helpers.created

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"query": PAID}, "query"),
        ({"vnode_count": 8}, "vnode_count"),
        ({"upstream": {"path": "/elsewhere", "key": ["id"]}}, "upstream"),
        ({"strategy": "no_shuffle"}, "strategy"),
        ({"table_properties": {"a": "b"}}, "table_properties"),
        ({"visibility": "on_finish"}, "visibility"),
        ({"keep_arrangement": True}, "keep_arrangement"),
        ({"restrict_to": {"vnodes": [1]}}, "restrict_to"),
        ({"query": PAID, "vnode_count": 8}, "query, vnode_count"),
    ],
)
def test_a_changed_definition_is_refused_naming_what_changed(created, change, field):
    """I6."""
    files = files_of(created.lake)
    with pytest.raises(InvalidJobError, match=f"with another {field}; rebuild the job to change its definition"):
        created.create(**change)
    with pytest.raises(InvalidJobError, match=f"another {field}"):
        created.backfill.require_created()
    with pytest.raises(InvalidJobError, match=f"another {field}"):
        creation.is_created(created.job, created.store)
    assert files_of(created.lake) == files


def test_a_creator_that_finds_another_definition_in_force_is_refused(backfilling):
    """I6: another creator was faster, with another job of that name."""

    class Sleeper(BackfillStore):
        def create(self, settings):
            Backfilling(backfilling.lake, rate_limit=5, vnode_count=8).create()
            return super().create(settings)

    with pytest.raises(InvalidJobError, match="with another vnode_count"):
        creation.create_job(
            backfilling.job,
            store=Sleeper(backfilling.job.state),
            upstream=backfilling.orders.table,
            engine=backfilling.engine,
            requested_by="x",
        )
    assert backfilling.store.settings().job["vnode_count"] == 8


@pytest.mark.parametrize(
    ("bounds", "allowed"),
    [
        ({"after": ["draft"], "up_to": ["draft", 5]}, False),  # all of draft's keys lie at or before the lower one
        ({"after": ["draft", 5], "up_to": ["draft"]}, True),
        ({"after": ["draft", 5], "up_to": ["draft", 6]}, True),
        ({"after": ["paid", 5], "up_to": ["draft"]}, False),
    ],
)
def test_bounds_that_are_shorter_than_the_key_have_all_keys_that_begin_with_them(backfilling, bounds, allowed):
    described = backfilling.orders.table.at()
    job = backfilling.job.model_dump(mode="json")
    job |= {**upstream(backfilling, key=["status", "id"]), "restrict_to": {"keys": bounds}}
    if allowed:
        assert creation.resolve_upstream(BackfillJob(**job), described).columns
        return
    with pytest.raises(InvalidJobError, match="no key lies after"):
        creation.resolve_upstream(BackfillJob(**job), described)


@pytest.mark.parametrize(
    ("query", "is_refused"),
    [
        ("SELECT id, status FROM upstream", True),
        ("SELECT id, STATUS FROM upstream", True),
        ("SELECT * FROM upstream", True),
        ("SELECT id FROM upstream WHERE status = 'paid'", True),
        ("SELECT id, amount FROM upstream", False),
    ],
)
def test_two_columns_that_differ_only_in_case_are_refused_if_one_is_used(backfilling, query, is_refused):
    """A database may have both, and Spark cannot tell them apart."""
    described = backfilling.orders.table.at()
    both = replace(described, types={**described.types, "Status": "long"})
    job = BackfillJob(**{**backfilling.job.model_dump(mode="json"), "query": query})
    if not is_refused:
        created = creation.resolve_upstream(job, both)
        assert created.columns
        both.require_same_columns(created)
        return
    with pytest.raises(
        InvalidJobError, match="has the columns (status and Status|Status and status), and Spark ignores"
    ):
        creation.resolve_upstream(job, both)


def test_a_column_that_is_added_beside_a_used_one_of_its_name_is_refused(backfilling):
    """I6."""
    of_delta = backfilling.orders.table.at()
    described = UpstreamDescription(
        location="shop_db: orders", offset=of_delta.offset, table_id=of_delta.table_id, types=of_delta.types
    )
    created = creation.resolve_upstream(backfilling.job, described)
    with pytest.raises(UpstreamSchemaChangedError, match="there is a column Status beside status"):
        replace(described, types={**described.types, "Status": "long"}).require_same_columns(created)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"key": ["order_id"]}, "upstream.key: .* has no column 'order_id'; it has id, status, amount"),
        ({"key": ["ID"]}, "has no column 'ID'"),
        ({"key": ["id", "nope"]}, "has no column 'nope'"),
        ({"distribution_key": ["customer"]}, "upstream.distribution_key: .* has no column 'customer'"),
    ],
)
def test_a_key_column_that_the_upstream_does_not_have_is_refused(backfilling, fields, said):
    """I6."""
    files = files_of(backfilling.lake)
    with pytest.raises(InvalidJobError, match=said):
        backfilling.create(**upstream(backfilling, **fields))
    assert files_of(backfilling.lake) == files


@pytest.mark.parametrize("values", [pa.array([1.5]), pa.array([{"a": 1}]), pa.array([[1]])])
def test_a_key_of_a_type_without_a_common_order_is_refused(lake, values):
    backfilling = Backfilling(lake)
    write_table(backfilling.orders.path, {"id": values})
    with pytest.raises(InvalidJobError, match=r"upstream.key: column 'id' has type .* allowed are"):
        backfilling.create()
    assert not backfilling.store.created()


def test_vnodes_cannot_come_from_a_column_that_spark_cannot_hash(lake):
    backfilling = Backfilling(lake, distribution_key=("tags",))
    tags = pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))
    write_table(backfilling.orders.path, {"id": pa.array([1]), "tags": tags})
    with pytest.raises(InvalidJobError, match=r"upstream.distribution_key: column 'tags' holds maps"):
        backfilling.create()
    assert not backfilling.store.created()


@pytest.mark.parametrize("name", ["_change_type", "_Commit_Version", "_COMMIT_TIMESTAMP"])
def test_a_column_of_a_name_that_deltas_change_feed_uses_itself_is_refused(lake, name):
    """Also where nothing uses it: Delta reads no change of such a table."""
    backfilling = Backfilling(lake)
    write_table(backfilling.orders.path, {"id": pa.array([1]), name: pa.array([2])})
    with pytest.raises(UpstreamError, match=rf"has a column {name}, .* rename or remove the column"):
        backfilling.create(query="SELECT id FROM upstream")
    assert not backfilling.store.created()


@pytest.mark.parametrize("name", ["__vnode", "__Epoch", "__IS_UPSERT", "___appeared", "_commit"])
def test_a_column_of_a_name_that_the_package_uses_itself_is_one_like_any_other(lake, name):
    backfilling = Backfilling(lake)
    write_table(backfilling.orders.path, {"id": pa.array([1]), name: pa.array([2])})
    assert [column.name for column in backfilling.create().upstream.columns] == ["id", name]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"query": "SELECT id, user FROM upstream"}, "user, which is not deterministic"),
        (
            {"restrict_to": {"keys": {"after": ["x"]}}},
            r"restrict_to.keys.after: .* key column 'id' is not of type long",
        ),
        ({"restrict_to": {"keys": {"up_to": [1, 2]}}}, r"restrict_to.keys.up_to: .* has 2 columns"),
        ({"restrict_to": {"keys": {"after": [6], "up_to": [2]}}}, r"no key lies after .*6.* and at or before .*2"),
        ({"restrict_to": {"keys": {"after": [6], "up_to": [6]}}}, r"no key lies after .*6.* and at or before .*6"),
    ],
)
def test_a_job_that_cannot_be_done_right_is_refused_before_anything_is_written(backfilling, change, said):
    """I6."""
    files = files_of(backfilling.lake)
    with pytest.raises(InvalidJobError, match=said):
        backfilling.create(**change)
    assert files_of(backfilling.lake) == files
    assert backfilling.engines == []


def test_an_upstream_that_is_missing_or_records_no_changes_is_refused(lake):
    """I6."""
    backfilling = Backfilling(lake)
    with pytest.raises(UpstreamNotFoundError):
        backfilling.create()
    write_deltalake(backfilling.orders.path, pa.table({"id": [1]}))
    with pytest.raises(ChangeDataFeedDisabledError, match="ALTER TABLE"):
        backfilling.create()
    assert [path.name for path in lake.iterdir()] == ["orders"]


@pytest.mark.parametrize(
    "refusal", [DuplicateKeyError("twice"), MaterializedViewError("taken"), InvalidJobError("query")]
)
def test_what_the_engine_refuses_is_refused_before_anything_is_written(backfilling, monkeypatch, refusal):
    """I6."""
    files = files_of(backfilling.lake)
    start = Backfilling.engine

    def refusing(self):
        engine = start(self)
        engine.refusal = refusal
        return engine

    monkeypatch.setattr(Backfilling, "engine", refusing)
    with pytest.raises(type(refusal)):
        backfilling.create()
    assert files_of(backfilling.lake) == files
    assert not backfilling.store.created()


def test_a_view_of_another_job_is_refused(created):
    """I6: the view's path holds another table."""
    other = Backfilling(created.lake, name="other", state=str(created.lake / "other state"))
    with pytest.raises(MaterializedViewError):
        other.create()
    assert not other.store.created()
