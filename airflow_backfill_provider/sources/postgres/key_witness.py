"""
Whether a table's key has identified its rows all the time since the last look.

While a unique index is gone, two rows may have one key. Then a delete in the log is about one of them, and nobody knows
that the other one stays. PostgreSQL logs such a delete only if the replica identity is not the primary key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_backfill_provider.sources.shared.postgresql.catalog import Connection
from airflow_backfill_provider.sources.shared.postgresql.rewrites import TableLook

# REINDEX CONCURRENTLY makes another index, and the constraint stays. An index's columns are written once.
_INDEXES = """
SELECT i.indexrelid::bigint, coalesce(c.oid::bigint, i.indexrelid::bigint), x.xmin::text::bigint,
       ARRAY(SELECT a.attname::text FROM pg_attribute a
             WHERE a.attrelid = i.indrelid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1]))
FROM pg_index i
JOIN pg_attribute x ON x.attrelid = i.indexrelid AND x.attnum = 1
LEFT JOIN pg_constraint c ON c.conindid = i.indexrelid AND c.conrelid = i.indrelid AND c.contype IN ('p', 'u')
WHERE i.indrelid = %s::bigint::oid AND i.indisunique AND i.indisvalid AND i.indimmediate
      AND i.indpred IS NULL AND i.indexprs IS NULL
"""


@dataclass(frozen=True, slots=True)
class UniqueIndex:
    """
    An index over the key.

    :param witness: the oid of its constraint; its own, if it has none.
    :param made_by: the transaction that made it.
    """

    oid: int
    witness: int
    made_by: int


def indexes_over(connection: Connection, table: int, key: Sequence[str]) -> list[UniqueIndex]:
    """Return the unique indexes over exactly some columns, constraints first."""
    rows = connection.execute(_INDEXES, [table]).fetchall()
    found = [UniqueIndex(*identity) for *identity, columns in rows if set(columns) == set(key)]
    return sorted(found, key=lambda index: (index.witness == index.oid, index.witness))


def was_unique(known: int, indexes: Sequence[UniqueIndex], look: TableLook, last_look: int) -> bool:
    """
    Return whether one of the indexes was there all the time since the last look.

    :param known: the witness at the last look.
    """
    return any(known in {index.witness, index.oid} or not look.is_since(index.made_by, last_look) for index in indexes)
