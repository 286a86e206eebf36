"""A column that was dropped and created again is another one, whatever it is called (I6)."""

from __future__ import annotations

import pyarrow as pa
import pytest

from airflow_backfill_provider.core import errors
from airflow_backfill_provider.core.epoch.settings import ResolvedUpstream, UpstreamColumn
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.sources.delta.description import DeltaDescription
from tests.builders import write_table


def mapped(version, physical_name):
    """Let a version of a table say that a column has another name in its files."""
    return DeltaDescription(
        location="/t",
        offset=Offset(version),
        table_id="t",
        types={"id": "long"},
        change_data_feed=True,
        physical_names={} if physical_name is None else {"id": physical_name},
    )


@pytest.mark.parametrize(("then", "now"), [("col-1", "col-2"), (None, "col-2")])
def test_a_column_that_was_dropped_and_created_again_under_its_old_name_is_another_one(then, now):
    upstream = ResolvedUpstream(table_id="t", columns=(UpstreamColumn(name="id", type="long", physical_name=then),))
    mapped(1, then).require_as_created(upstream)
    with pytest.raises(errors.UpstreamSchemaChangedError, match="column 'id' was dropped and created again"):
        mapped(2, now).require_as_created(upstream)


def test_a_table_without_column_mapping_has_no_other_names(lake):
    assert write_table(lake / "t", {"a": pa.array([1])}).at().physical_names == {}
