"""What of the shop's database is pure: rows for COPY, and secrets that do not show."""

from __future__ import annotations

import csv
import datetime as dt
from decimal import Decimal

import pyarrow as pa

from demo.orders import SCHEMA
from demo.postgres.cluster import Cluster
from demo.postgres.shop import Login, Shop, as_csv

ORDER = {
    "region": "uki",
    "order_id": 3,
    "customer_id": 1,
    "country": "GB",
    "amount": Decimal("12.50"),
    "discount": 0.125,
    "status": "open",
    "express": True,
    "items": 2,
    "receipt": b"\x00\xff",
    "due_on": dt.date(2025, 1, 15),
    "ordered_at": dt.datetime(2025, 1, 1, 0, 1, tzinfo=dt.UTC),
    "updated_at": dt.datetime(2025, 1, 1, 0, 1, 0, 7, tzinfo=dt.UTC),
    "notes": 'fragile: "glass", — twice\n',
}


def test_every_type_is_written_as_postgresql_reads_it():
    (row,) = csv.reader([as_csv(pa.Table.from_pylist([ORDER], schema=SCHEMA)).decode()])
    assert row[3:11] == ["GB", "12.50", "0.125", "open", "true", "2", "\\x00ff", "2025-01-15"]
    assert row[11:] == ["2025-01-01 00:01:00.000000Z", "2025-01-01 00:01:00.000007Z", ORDER["notes"]]


def test_an_empty_text_is_no_null():
    orders = [{**ORDER, "notes": ""}, {**ORDER, "notes": None, "customer_id": None}]
    empty, null = as_csv(pa.Table.from_pylist(orders, schema=SCHEMA)).decode().splitlines()
    assert empty.endswith(',""')
    assert null.endswith("Z,")
    assert null.startswith('"uki",3,,"GB"')


def test_logins_have_passwords_of_their_own_that_do_not_show(tmp_path):
    cluster = Cluster(tmp_path, 5432, "the superuser's")
    shop = Shop(cluster, "airflow_backfill_orders")
    assert shop.owner.password != shop.reader.password != Login("backfill", "LOGIN").password
    assert shop.reader.password not in repr(shop.reader)
    assert shop.owner.password not in shop.reader_uri
    assert not any(password in " ".join(cluster.server) for password in ("superuser's", shop.owner.password))


def test_a_password_with_signs_is_escaped_in_a_connection(tmp_path):
    uri = Cluster(tmp_path, 5432, "a:b@c/d e").uri("shop", "backfill")
    assert uri == "postgres://backfill:a%3Ab%40c%2Fd%20e@127.0.0.1:5432/shop"
