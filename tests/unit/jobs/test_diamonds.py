"""Two upstreams that are made of a common table are refused by name."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.jobs.diamonds import require_no_diamond
from airflow_backfill_provider.lake.tables.view_identity import INCARNATION_PROPERTY, JOB_PROPERTY, STATE_PROPERTY
from airflow_backfill_provider.sources.delta.source import DeltaSource
from tests.builders import write_table
from tests.several import shape_of_several
from tests.shop import Shop


@pytest.fixture
def shop(tmp_path):
    with shape_of_several():
        made = Shop(tmp_path)
        settings = made.create()
        DeltaTable.create(
            made.job.view_location,
            schema=pa.schema([("id", pa.int64())]),
            mode="overwrite",
            configuration={
                JOB_PROPERTY: made.job.name,
                INCARNATION_PROPERTY: settings.incarnation,
                STATE_PROPERTY: made.job.state,
            },
            raise_if_key_not_exists=False,
        )
        yield made


def test_a_view_beside_a_table_that_it_is_made_of_is_refused(shop):
    """Whichever of its tables it is: not only the one that leads."""
    view = DeltaSource(shop.job.view_location)
    for table in ("orders", "customers"):
        with pytest.raises(InvalidJobError, match=f"names and {table} both come from .*/{table}"):
            require_no_diamond({"names": view, table: DeltaSource(f"{shop.folder}/{table}")}, None)


def test_tables_that_have_nothing_in_common_are_allowed(shop, tmp_path):
    other = write_table(tmp_path / "countries", {"id": pa.array([1])})
    require_no_diamond({"names": DeltaSource(shop.job.view_location), "countries": other}, None)
