"""The columns of several upstreams that a job pins when it is created."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from airflow_backfill_provider.core.clock import utc_now
from airflow_backfill_provider.core.epoch.settings import ResolvedUpstream
from airflow_backfill_provider.core.errors import (
    ChangeDataFeedDisabledError,
    InvalidJobError,
    UpstreamSchemaChangedError,
)
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.jobs.first_look import look
from airflow_backfill_provider.jobs.resolution import require_changes_of_all, resolve_upstream
from airflow_backfill_provider.shapes.several import tables_of
from tests.builders import CHANGE_DATA_FEED
from tests.several import LOOKUP, shape_of_several
from tests.shop import Shop


@pytest.fixture
def shop(tmp_path):
    with shape_of_several():
        yield Shop(tmp_path)


def test_each_table_has_the_columns_that_the_query_and_its_key_use(shop):
    seen = look(shop.job, shop.backfill.upstream, None, shop.clock)
    resolved = resolve_upstream(shop.job, seen.described, seen.others)
    assert resolved.types == {"id": "long", "customer": "long"}
    assert resolved.others["customers"].types == {"id": "long", "name": "string"}
    assert resolved.others["customers"].table_id != resolved.table_id


def test_a_column_that_no_table_has_is_refused(shop):
    fields = shop.job.fields | {"query": LOOKUP.replace("d.name", "d.nickname")}
    seen = look(shop.job, shop.backfill.upstream, None, shop.clock)
    with pytest.raises(InvalidJobError, match="customers has no column nickname"):
        resolve_upstream(BackfillJob(**fields), seen.described, seen.others)


def test_a_table_whose_changes_lack_old_values_is_refused(shop, monkeypatch):
    seen = look(shop.job, shop.backfill.upstream, None, shop.clock)
    resolved = resolve_upstream(shop.job, seen.described, seen.others)
    require_changes_of_all(shop.job, resolved, seen.several)
    customers = seen.others["customers"].source
    monkeypatch.setattr(type(customers), "old_columns", property(lambda _: frozenset()))
    with pytest.raises(InvalidJobError, match=r"upstreams.customers: changes of .* do not have the value that id had"):
        require_changes_of_all(shop.job, resolved, seen.several)


def test_columns_that_are_never_null_are_pinned_and_checked(shop):
    """NOT IN depends on it. A job of one upstream pins nothing of it."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
    path = f"{shop.folder}/customers"
    shutil.rmtree(path)
    write_deltalake(path, pa.table({"id": [1], "name": ["a"]}, schema), configuration=CHANGE_DATA_FEED)
    seen = look(shop.job, shop.backfill.upstream, None, utc_now)
    resolved = resolve_upstream(shop.job, seen.described, seen.others)
    customers = resolved.others["customers"]
    assert (customers.required, tables_of(shop.job, resolved)["customers"].required) == ({"id"}, {"id"})
    seen.others["customers"].described.require_as_created(customers)
    later = replace(seen.others["customers"].described, required=frozenset())
    with pytest.raises(UpstreamSchemaChangedError, match="column 'id' may be null now"):
        later.require_as_created(customers)


def test_a_table_that_records_no_changes_is_compared_unless_its_rows_are_read_in_chunks(tmp_path):
    """What needs no change has none pinned, so records of other jobs stay as they are."""
    compared = resolved_of(Shop(tmp_path / "small", unrecorded=("customers",), strategy="snapshot"))
    assert {name: found.compared for name, found in compared.others.items()} == {"customers": True}
    assert '"compared":true' in compared.model_dump_json()
    assert "compared" not in resolved_of(Shop(tmp_path / "recorded", strategy="snapshot")).model_dump_json()
    whole = Shop(tmp_path / "whole", unrecorded=("customers",), strategy="snapshot", refresh="full")
    assert not resolved_of(whole).others["customers"].compared
    with pytest.raises(ChangeDataFeedDisabledError, match="ALTER TABLE"):
        resolved_of(Shop(tmp_path / "lead", unrecorded=("orders",), strategy="snapshot"))
    union = "SELECT id, customer AS c FROM orders UNION ALL SELECT id, id FROM customers"
    with pytest.raises(ChangeDataFeedDisabledError, match="ALTER TABLE"):
        resolved_of(Shop(tmp_path / "branch", unrecorded=("customers",), strategy="snapshot", query=union))


def resolved_of(shop: Shop) -> ResolvedUpstream:
    """Return what creation would pin."""
    seen = look(shop.job, shop.backfill.upstream, None, shop.clock)
    resolved = resolve_upstream(shop.job, seen.described, seen.others)
    require_changes_of_all(shop.job, resolved, seen.several)
    return resolved
