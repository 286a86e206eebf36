"""The tables beside the orders: each order names a customer, and each customer names a country."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

from airflow_backfill_provider.applications.spark_settings import storage_options_from_environment
from demo.orders import CUSTOMERS, REGIONS, Integers

COUNTRIES = {
    "AR": "Argentina",
    "AT": "Austria",
    "AU": "Australia",
    "BR": "Brazil",
    "CA": "Canada",
    "CH": "Switzerland",
    "DE": "Germany",
    "DK": "Denmark",
    "FI": "Finland",
    "GB": "United Kingdom",
    "IE": "Ireland",
    "IN": "India",
    "JP": "Japan",
    "MX": "Mexico",
    "NO": "Norway",
    "SE": "Sweden",
    "SG": "Singapore",
    "US": "United States",
}
"""The countries of all regions by their codes."""

CODES = tuple(sorted(code for codes in REGIONS.values() for code in codes))

_SINCE = dt.date(2019, 1, 1)

CUSTOMER_SCHEMA = pa.schema(
    [
        pa.field("customer_id", pa.int64(), nullable=False),
        pa.field("customer", pa.string()),
        pa.field("country", pa.string()),
        pa.field("since", pa.date32()),
    ]
)
COUNTRY_SCHEMA = pa.schema([pa.field("code", pa.string(), nullable=False), pa.field("title", pa.string())])


def create_customers(path: str, seed: int = 5) -> None:
    """Write the table with a row for each number that an order may name."""
    append_customers(path, make_customers(np.arange(CUSTOMERS, dtype=np.int64), np.random.default_rng(seed)))


def create_countries(path: str) -> None:
    """Write the table with all countries."""
    _append(path, "countries", pa.table([list(COUNTRIES), list(COUNTRIES.values())], schema=COUNTRY_SCHEMA))


def make_customers(customer_ids: Integers, random: np.random.Generator) -> pa.Table:
    """Generate customers, each in a random country."""
    count = len(customer_ids)
    days = [_SINCE + dt.timedelta(days=int(day)) for day in random.integers(2000, size=count)]
    countries = pa.array(CODES).take(pa.array(random.integers(len(CODES), size=count)))
    return pa.table(
        [customer_ids, [f"customer {number}" for number in customer_ids], countries, days], schema=CUSTOMER_SCHEMA
    )


def append_customers(path: str, customers: pa.Table) -> None:
    """Append customers as one version. The first call creates the table with its change data feed."""
    _append(path, "customers", customers)


def _append(path: str, name: str, rows: pa.Table) -> None:
    write_deltalake(
        path,
        rows,
        mode="append",
        name=name,
        configuration={"delta.enableChangeDataFeed": "true"},
        storage_options=storage_options_from_environment(),
    )
