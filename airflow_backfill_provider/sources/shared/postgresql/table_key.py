"""Refuses a key that does not identify the rows of a PostgreSQL table, or orders them differently than Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.sources.shared.postgresql.catalog import DescribedTable
from airflow_backfill_provider.sources.shared.postgresql.key_ranges import require_key_type

_UTF8 = "UTF8"


def require_key(
    location: str, table: DescribedTable, key: Sequence[str], types: Mapping[str, str], encoding: str
) -> None:
    """
    Refuse a key that does not identify rows.

    :param location: the table's location, for messages.
    :param key: columns of the table.
    :param types: column → type that it is read as.
    :param encoding: the encoding of the database.
    :raises InvalidJobError: with what to do.
    """
    columns = {column.name: column for column in table.columns}
    for name in key:
        require_key_type(name, columns[name].type.name, types[name])
        if types[name] == "string" and encoding != _UTF8:
            raise InvalidJobError(
                f"upstream.key: column {name!r} holds texts, and the database is encoded in {encoding}; only in UTF8 "
                "are they ordered as in Spark"
            )
    if not any(set(unique) == set(key) for unique in table.unique_keys):
        known = "; ".join(", ".join(unique) for unique in table.unique_keys) or "none"
        raise InvalidJobError(
            f"upstream.key: {location} has no unique index over {', '.join(key)}, so a key may have several rows; give "
            f"a primary key or the columns of a unique index that is neither partial nor deferrable (there are: "
            f"{known})"
        )
    nullable = [name for name in key if columns[name].nullable]
    if nullable:
        raise InvalidJobError(
            f"upstream.key: column {', '.join(nullable)} may be null, and then the index does not identify a row; run: "
            "ALTER TABLE … ALTER COLUMN … SET NOT NULL"
        )
