"""
What a landing finds out about tables by looking at the catalog, because the database does not log it.

The change log records each look, so that the next one can compare. Only what follows from a change since the last look
is told, as rows of the change log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_backfill_provider.sources.postgres.key_witness import indexes_over, was_unique
from airflow_backfill_provider.sources.postgres.logged_names import numbers_of
from airflow_backfill_provider.sources.postgres.pgoutput import Relation
from airflow_backfill_provider.sources.shared.change_log.changes import LoggedKind
from airflow_backfill_provider.sources.shared.postgresql.catalog import Connection
from airflow_backfill_provider.sources.shared.postgresql.rewrites import Attribute, TableLook, lost_values

Known = Callable[[str], int | None]
"""Returns what the last look recorded under a name; ``None`` if nothing."""

_REWRITTEN = "was written anew by ALTER TABLE, which PostgreSQL does not log"


@dataclass(slots=True)
class Looks:
    """
    The looks of one landing.

    :param known: what the earlier ones recorded.
    :param news: what to record.
    :param rows: the fields of rows for values that were written anew.
    :param without_key: tables whose key did not identify rows all the time.
    :param matters: whether a landing is due for the news alone.
    :param tables: the tables that were looked at.
    """

    known: Known
    news: dict[str, int] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    without_key: list[str] = field(default_factory=list)
    matters: bool = False
    tables: set[str] = field(default_factory=set)

    @classmethod
    def at(cls, connection: Connection, tables: Iterable[int], own: int, key: Sequence[str], known: Known) -> Looks:
        """
        Look at the job's table, and at those of other jobs that share the slot.

        :param tables: the oids of the published tables.
        :param own: that of the job's table.
        :param key: its key.
        """
        looks = cls(known)
        for table in {*(table for table in tables if looks.last_look(str(table)) is not None), own}:
            look = TableLook.now(connection, table)
            looks.tables.add(look.table)
            looks._look_for_rewrites(connection, look)
            if table == own:
                looks._look_for_key(connection, look, key)
        return looks

    def last_look(self, table: str) -> int | None:
        """Return the transaction before which all were over at the last look at a table; ``None`` if there is none."""
        return self.known(_seen(table))

    def rows_without_key(self, identified_otherwise: Iterable[str]) -> Iterator[dict[str, Any]]:
        """
        Yield a row for each table whose key did not identify rows all the time, and that was changed meanwhile.

        :param identified_otherwise: the tables with changes whose replica identity is not the primary key.
        """
        for table in sorted({*self.without_key} & {*identified_otherwise}):
            text = "changes while the table had no unique index over the key, so that two rows may have had one key"
            yield {"table": table, "kind": LoggedKind.PART_REMOVED, "new": {"text": text}}

    def _look_for_rewrites(self, connection: Connection, look: TableLook) -> None:
        last = self.last_look(look.table)
        if last is not None:
            lost = lost_values(connection, look, last_look=last, file_at_last_look=lambda oid: self.known(_file(oid)))
            if lost:
                texts = dict.fromkeys(lost, _REWRITTEN)
                self.rows.append({"table": look.table, "kind": LoggedKind.REWRITTEN, "new": texts})
        changed = self.known(_files(look.table)) != look.identity
        if changed:
            self.news[_files(look.table)] = look.identity
            self.news.update({_file(oid): file for oid, file in look.files.items() if self.known(_file(oid)) != file})
        self.matters |= changed or last is None or bool(look.touched(last))
        self.news[_seen(look.table)] = look.over_before

    def _look_for_key(self, connection: Connection, look: TableLook, key: Sequence[str]) -> None:
        name = f"key/{look.table}/{','.join(key)}"
        indexes = indexes_over(connection, int(look.table), key)
        known, last = self.known(name), self.last_look(look.table)
        # So that it is an old one when another index is dropped for it.
        self.matters |= last is not None and any(look.is_since(index.made_by, last) for index in indexes)
        if known is not None and last is not None and not was_unique(known, indexes, look, last):
            self.without_key.append(look.table)
        if indexes and known not in {index.witness for index in indexes}:
            self.news[name] = indexes[0].witness
            self.matters = True


def logged_numbers(connection: Connection, relation: Relation, root: int, last_look: int | None) -> dict[str, str]:
    """
    Return the number of the column of a table that each logged name means; empty if the table was not looked at before.

    :param root: the oid of the table that the rows belong to.
    """
    if last_look is None:
        return {}
    look = TableLook.now(connection, relation.oid)
    numbers = None if root == relation.oid else _numbers(TableLook.now(connection, root).attributes)
    return numbers_of(
        [column.name for column in relation.columns],
        look.attributes,
        lambda transaction: look.is_since(transaction, last_look),
        numbers,
    )


def _numbers(attributes: Sequence[Attribute]) -> dict[str, int]:
    return {attribute.name: attribute.number for attribute in attributes if not attribute.is_dropped}


def _seen(table: str) -> str:
    return f"seen/{table}"


def _files(table: str) -> str:
    return f"files/{table}"


def _file(oid: int) -> str:
    return f"file/{oid}"
