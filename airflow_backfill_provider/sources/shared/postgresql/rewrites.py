"""
Finds values that ``ALTER TABLE`` wrote anew, which PostgreSQL does not log.

``ALTER COLUMN … TYPE … USING`` may change every value, even if the type stays the same. Two things tell it from others:

- The column's row in the catalog is written again. ``SET NOT NULL``, ``SET STATISTICS``, ``SET DEFAULT`` and ``GRANT``
  do that, too, but the table keeps its file.
- The table gets another file. ``VACUUM FULL``, ``CLUSTER``, ``TRUNCATE`` and a change of another column do that, too,
  but do not touch the column.

If both happened since the last look, the rows decide. ``ALTER TABLE`` writes all of them in its own transaction,
and ``VACUUM FULL`` and ``CLUSTER`` keep each row's transaction. So one row of a transaction that was over at the last
look proves that no value was written anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from psycopg import errors, sql

from airflow_backfill_provider.sources.shared.postgresql.catalog import Connection
from airflow_backfill_provider.sources.shared.postgresql.transactions import XID_BITS

_MASK = (1 << XID_BITS) - 1

_HORIZON = """
SELECT pg_snapshot_xmin(s)::text::bigint, pg_snapshot_xmax(s)::text::bigint, %s::bigint::oid::regclass::text
FROM pg_current_snapshot() s
"""

_ATTRIBUTES = """
SELECT a.attnum::int, a.attname::text, a.attisdropped, a.xmin::text::bigint
FROM pg_attribute a
WHERE a.attrelid = %s::bigint::oid AND a.attnum > 0 AND a.attgenerated = '' ORDER BY a.attnum
"""

_FILES = """
SELECT c.oid::bigint, c.relfilenode::bigint FROM pg_class c
WHERE c.relkind <> 'p' AND (c.oid = %s::bigint::oid
                            OR c.oid IN (SELECT relid FROM pg_partition_tree(%s::bigint::oid::regclass) WHERE isleaf))
"""


@dataclass(frozen=True, slots=True)
class Attribute:
    """
    A column of the catalog, also one that was dropped.

    :param written_by: the transaction that wrote its row in the catalog.
    """

    number: int
    name: str
    is_dropped: bool
    written_by: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLook:
    """
    What the catalog says about a table at one moment.

    :param table: its oid, as a text.
    :param relation: its name, as SQL writes it.
    :param over_before: all transactions with a lower id were over.
    :param next_id: no transaction with this id, or a higher one, had begun.
    :param attributes: its columns, also dropped ones, by number; without generated ones.
    :param files: the number of the file of the table, and of each partition, by oid.
    """

    table: str
    relation: str
    over_before: int
    next_id: int
    attributes: Sequence[Attribute]
    files: Mapping[int, int]

    @classmethod
    def now(cls, connection: Connection, table: int) -> TableLook:
        """
        Look at a table.

        :param table: its oid.
        """
        # First: whatever is over by then is in the rest.
        over_before, next_id, relation = connection.execute(_HORIZON, [table]).fetchall()[0]
        return cls(
            table=str(table),
            relation=relation,
            over_before=over_before,
            next_id=next_id,
            attributes=[Attribute(*row) for row in connection.execute(_ATTRIBUTES, [table])],
            files=dict(connection.execute(_FILES, [table, table]).fetchall()),
        )

    @property
    def identity(self) -> int:
        """A number that identifies the files."""
        return _identity(sorted(self.files.items()))

    def version(self, used: Collection[str]) -> str:
        """Return a text that changes with each change of some columns, or of the files."""
        written = [(column.number, column.written_by) for column in self.attributes if column.name in used]
        return f"{_identity([written, sorted(self.files.items())]):x}"

    def is_since(self, transaction: int, last_look: int) -> bool:
        """
        Return whether a transaction may have been in progress at the last look, or is later.

        :param transaction: its id, of 32 bits.
        :param last_look: ``over_before`` of the last look.
        """
        return (transaction - last_look) & _MASK <= max(self.next_id - last_look, 0)

    def touched(self, last_look: int) -> list[str]:
        """Return the columns whose rows in the catalog were written since the last look."""
        return [
            attribute.name
            for attribute in self.attributes
            if not attribute.is_dropped and self.is_since(attribute.written_by, last_look)
        ]


def lost_values(
    connection: Connection, look: TableLook, *, last_look: int, file_at_last_look: Callable[[int], int | None]
) -> list[str]:
    """
    Return the columns whose values may have been written anew since the last look.

    :param look: the table now.
    :param last_look: ``over_before`` of the last look.
    :param file_at_last_look: returns the number of the file that a table or partition had then; ``None`` if unknown.
    """
    touched = look.touched(last_look)
    if not touched or all(file_at_last_look(oid) in {None, file} for oid, file in look.files.items()):
        return []
    return touched if _are_all_rows_since(connection, look, last_look) else []


def _are_all_rows_since(connection: Connection, look: TableLook, last_look: int) -> bool:
    """Return whether there are rows, and all are of transactions that were not over at the last look."""
    statement = sql.SQL(
        "SELECT EXISTS (SELECT FROM {table}), EXISTS (SELECT FROM {table} "
        "WHERE ((xmin::text::bigint - {look}) & {mask}) > {most})"
    ).format(
        # The server has quoted it.
        table=sql.SQL(look.relation),
        look=sql.Literal(last_look),
        mask=sql.Literal(_MASK),
        most=sql.Literal(max(look.next_id - last_look, 0)),
    )
    try:
        has_rows, has_old = connection.execute(statement).fetchall()[0]
    except errors.InsufficientPrivilege:
        # A table of another job, with which the slot is shared.
        return True
    return bool(has_rows) and not has_old


def _identity(value: object) -> int:
    """Return a number of up to 56 bits that identifies a value."""
    return int.from_bytes(hashlib.sha256(repr(value).encode()).digest()[:7])
