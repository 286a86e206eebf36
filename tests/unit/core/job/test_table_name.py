"""Names of tables in a catalog."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.table_name import canonical_table_name, is_like_name, sql_name, sql_schema


@pytest.mark.parametrize("text", ["prod.sales.orders", "spark_catalog.sales.o_1", "my-cat.Sales.2026"])
def test_a_full_name_is_kept(text):
    assert is_like_name(text)
    assert canonical_table_name(text) == text


@pytest.mark.parametrize("text", ["sales.orders", "a.b.c.d", "prod..orders", "prod.sales.or ders", "prod.sales.`o`"])
def test_another_name_is_refused(text):
    assert is_like_name(text), "it is not taken for a location"
    with pytest.raises(InvalidJobError, match=r"not a table's full name .*write catalog\.schema\.table"):
        canonical_table_name(text)


@pytest.mark.parametrize("text", ["/lake/a.b.c", "s3a://bucket/a.b", "./a.b.c", "orders", ""])
def test_a_location_is_not_like_a_name(text):
    assert not is_like_name(text)


def test_names_are_quoted_part_by_part():
    assert sql_name("my-cat.sales.orders") == "`my-cat`.`sales`.`orders`"
    assert sql_schema("my-cat.sales.orders") == "`my-cat`.`sales`"
