"""Keys that only PostgreSQL orders: refused before anything is made, and named when they come later."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import UnsupportedValueError
from tests.integration.postgres.shop import Shop
from tests.variants import mostly_exhaustive_combinations

pytestmark = pytest.mark.spark

STRANGE = [
    ("date", "infinity"),
    ("date", "-infinity"),
    ("date", "0044-03-15 BC"),
    ("date", "10000-01-01"),
    ("timestamp", "infinity"),
    ("timestamp", "294276-12-31 23:59:59"),
    ("timestamptz", "-infinity"),
    ("timestamptz", "0001-12-31 23:59:59+00 BC"),
    ("numeric(10, 2)", "NaN"),
]
USUAL = {
    "date": ("0001-01-01", "2024-02-29", "9999-12-31"),
    "timestamp": ("0001-01-01 00:00:00", "2024-02-29 12:00:00", "9999-12-31 23:59:59.999999"),
    "timestamptz": ("0001-01-01 00:00:00+00", "2024-02-29 12:00:00+00", "9999-12-31 23:59:59.999999+00"),
    "numeric(10, 2)": ("-99999999.99", "0", "99999999.99"),
}
TRIED = mostly_exhaustive_combinations(STRANGE, {("date", "0044-03-15 BC")})


def make_orders(shop: Shop, kind: str) -> None:
    values = ", ".join(f"('{value}', {n})" for n, value in enumerate(USUAL[kind]))
    shop.run_sql(f"CREATE TABLE orders (at {kind} PRIMARY KEY, n int)", f"INSERT INTO orders VALUES {values}")


def slots(shop: Shop) -> int:
    return len(shop.table("SELECT slot_name FROM pg_replication_slots WHERE database = current_database()"))


@pytest.mark.exhaustive
@pytest.mark.parametrize(("kind", "value"), TRIED)
def test_a_key_that_only_the_database_orders_is_refused_before_anything_is_made(
    shop: Shop, kind: str, value: str
) -> None:
    make_orders(shop, kind)
    shop.run_sql(f"INSERT INTO orders VALUES ('{value}', 9)")
    with pytest.raises(UnsupportedValueError) as refused:
        shop.create(key=["at"])
    message = str(refused.value)
    assert "upstream.key: shop_db: public.orders has rows whose key is infinite" in message
    assert "\n" not in message
    statement = message.rpartition(": ")[2]
    assert shop.table(f"SELECT n FROM ({statement}) found") == [(9,)]
    assert slots(shop) == 0
    shop.run_sql("DELETE FROM orders WHERE n = 9")
    shop.create(key=["at"])


@pytest.mark.parametrize(("kind", "value"), TRIED)
def test_a_key_that_comes_later_fails_the_epoch_until_its_row_is_gone(shop: Shop, kind: str, value: str) -> None:
    """I6: and then the next epoch goes on, from the log and from the table alike."""
    make_orders(shop, kind)
    shop.create(key=["at"])
    shop.run_sql(f"INSERT INTO orders VALUES ('{value}', 9)")
    with pytest.raises(UnsupportedValueError, match="key in column at that is infinite"):
        shop.finish()
    shop.run_sql("DELETE FROM orders WHERE n = 9")
    shop.finish()
    shop.run_sql(f"INSERT INTO orders VALUES ('{value}', 9)", "UPDATE orders SET n = n + 10")
    with pytest.raises(UnsupportedValueError, match="key in column at that is infinite"):
        shop.epoch()
    shop.run_sql(f"UPDATE orders SET at = '{'7' if kind.startswith('n') else '2024-07-01'}' WHERE n = 19")
    assert shop.epoch() is not None
    shop.assert_truth()
    assert shop.rows("n") == [(10,), (11,), (12,), (19,)]


@pytest.mark.exhaustive
def test_a_value_without_a_counterpart_does_not_matter_once_it_is_corrected(shop: Shop) -> None:
    """I6: the epoch names the column, and goes on after the correction that it asks for."""
    shop.run_sql(
        "CREATE TABLE orders (id int PRIMARY KEY, day date, days date[], price numeric(5, 2))",
        "INSERT INTO orders VALUES (1, '2024-01-01', '{2024-01-01}', 1), (2, NULL, NULL, 2)",
        "ALTER TABLE orders REPLICA IDENTITY FULL",
    )
    shop.create()
    shop.finish()
    shop.run_sql("UPDATE orders SET day = 'infinity', days = '{infinity}', price = 'NaN' WHERE id = 1")
    shop.run_sql("INSERT INTO orders VALUES (3, 'infinity', '{infinity}', 'NaN')")
    with pytest.raises(UnsupportedValueError, match="correct the row and run the next epoch"):
        shop.epoch()
    shop.run_sql("UPDATE orders SET day = '2024-05-05', days = NULL, price = 5 WHERE id = 1")
    shop.run_sql("DELETE FROM orders WHERE id = 3")
    assert shop.epoch() is not None
    assert shop.rows("id", "day") == shop.table("SELECT id, day FROM orders")
    shop.assert_truth()
