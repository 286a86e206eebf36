"""
Turns logical replication messages into rows of a change log.

The messages of one transaction come together, and transactions come in the order of their commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_backfill_provider.sources.change_log.changes import LoggedChange, LoggedKind
from airflow_backfill_provider.sources.postgres.arrays import array_as_json
from airflow_backfill_provider.sources.postgres.partitions import PartitionTrees
from airflow_backfill_provider.sources.postgres.pgoutput import (
    UNCHANGED,
    Begin,
    Commit,
    DecodingError,
    Delete,
    Insert,
    LogicalMessage,
    Message,
    Relation,
    Truncate,
    Tuple,
    Update,
)

NO_PARTITIONS = PartitionTrees()

MARK_PREFIX = "airflow_backfill"
"""The prefix of the logical messages that this package writes into the database's log."""


def offset_of_commit(lsn: int) -> int:
    """
    Return the offset of a transaction.

    A slot returns the transactions whose commit record begins before an LSN, and windows include their end. So the
    offset is the byte after the record's first one.

    :param lsn: where the record of its commit begins.
    """
    return lsn + 1


def logged_changes(
    messages: Iterable[Message | None],
    types_of: Callable[[Relation], Mapping[str, str]],
    *,
    after: int,
    trees: PartitionTrees = NO_PARTITIONS,
) -> Iterator[LoggedChange]:
    """
    Yield the rows of the change log.

    :param messages: the decoded messages of whole transactions.
    :param types_of: returns the types of a table's columns, as the change log records them.
    :param trees: the partitions of partitioned tables.
    :param after: leave out transactions that were committed at or before this LSN, because the log has them.
    :raises DecodingError: if messages come in an order that the protocol excludes.
    """
    relations: dict[int, Relation] = {}
    described: dict[int, Mapping[str, str]] = {}
    transaction: Begin | None = None
    number = 0
    for message in messages:
        match message:
            case Begin():
                transaction, number = message, 0
                continue
            case Commit():
                transaction = None
                continue
            case Relation():
                relations[message.oid] = message
                described.pop(message.oid, None)
                continue
            case None:
                continue
            case LogicalMessage(transactional=False):
                continue
        if transaction is None:
            raise DecodingError(f"a {type(message).__name__.lower()} does not belong to a transaction")
        if offset_of_commit(transaction.final_lsn) <= after:
            continue
        for fields in _rows_of(message, relations, described, types_of, trees):
            number += 1
            yield LoggedChange(
                offset=offset_of_commit(transaction.final_lsn),
                number=number,
                transaction=transaction.xid,
                committed_at=transaction.committed_at,
                **fields,
            )


def noting_repeated(
    messages: Iterable[Message | None], after: int, repeated: set[tuple[int, int]]
) -> Iterator[Message | None]:
    """
    Yield messages, and note the transactions with changes of rows that a slot returns again.

    :param after: the LSN through which they are landed.
    :param repeated: gets the offset and the id of each of them.
    """
    transaction: Begin | None = None
    for message in messages:
        if isinstance(message, Begin):
            transaction = message
        elif isinstance(message, Insert | Update | Delete) and transaction is not None:
            offset = offset_of_commit(transaction.final_lsn)
            if offset <= after:
                repeated.add((offset, transaction.xid))
        yield message


@dataclass(frozen=True, slots=True)
class _Columns:
    """How to name the values of a table's rows."""

    relation: Relation
    types: Mapping[str, str]

    def row(self, values: Tuple, old: Tuple | None = None) -> dict[str, str | None]:
        """
        Name the values of a row.

        :param old: the whole old row, to take unchanged values from.
        """
        self._require_width(values)
        named: dict[str, str | None] = {}
        for index, column in enumerate(self.relation.columns):
            value = values[index]
            if value is UNCHANGED and old is not None:
                value = old[index]
            if value is not UNCHANGED:
                named[column.name] = self._text(column.name, value)
        return named

    def key(self, values: Tuple) -> dict[str, str | None]:
        """Name the values of a row's replica identity."""
        self._require_width(values)
        return {
            column.name: self._text(column.name, value)
            for column, value in zip(self.relation.columns, values, strict=True)
            if column.is_key and value is not UNCHANGED
        }

    def _text(self, column: str, value: str | None) -> str | None:
        if value is None or not self.types[column].startswith("{"):
            return value
        try:
            return array_as_json(value)
        except ValueError:
            # Its indexes do not begin with 1. An epoch that uses it fails; landing serves other tables and jobs, too.
            return value

    def _require_width(self, values: Tuple) -> None:
        if len(values) != len(self.relation.columns):
            raise DecodingError(
                f"a row of {self.relation.namespace}.{self.relation.name} has {len(values)} values, but the table has "
                f"{len(self.relation.columns)} columns"
            )


def _rows_of(
    message: Message,
    relations: Mapping[int, Relation],
    described: dict[int, Mapping[str, str]],
    types_of: Callable[[Relation], Mapping[str, str]],
    trees: PartitionTrees,
) -> Iterator[dict[str, Any]]:
    """Yield the fields of the rows that a message becomes."""
    if isinstance(message, LogicalMessage):
        if message.prefix == MARK_PREFIX:
            yield {"table": "", "kind": LoggedKind.MARK, "new": {"text": message.content.decode()}}
        return
    if isinstance(message, Truncate):
        yield from trees.truncated(message.oids)
        return
    if not isinstance(message, Insert | Update | Delete):
        raise DecodingError(f"a {type(message).__name__.lower()} came inside a transaction")
    relation = relations.get(message.oid)
    if relation is None:
        raise DecodingError(f"a change of table {message.oid} came before the table's columns")
    if message.oid not in described:
        described[message.oid] = types_of(relation)
        yield {"table": trees.table_of(message.oid), "kind": LoggedKind.COLUMNS, "new": described[message.oid]}
    yield {"table": trees.table_of(message.oid), **_change(message, _Columns(relation, described[message.oid]))}


def _change(message: Insert | Update | Delete, columns: _Columns) -> dict[str, Any]:
    """Return the fields of the row for a change."""
    if isinstance(message, Insert):
        return {"kind": LoggedKind.INSERT, "new": columns.row(message.new)}
    if isinstance(message, Delete):
        named = columns.key(message.old) if message.old_is_key else columns.row(message.old)
        return {"kind": LoggedKind.DELETE, "old": named}
    if message.old is None or message.old_is_key:
        old = columns.key(message.new if message.old is None else message.old)
        # A long key that did not change may be missing in the new row.
        return {"kind": LoggedKind.UPDATE, "old": old, "new": {**old, **columns.row(message.new)}}
    return {"kind": LoggedKind.UPDATE, "old": columns.row(message.old), "new": columns.row(message.new, message.old)}
