"""
Turns logical replication messages into rows of a change log.

The messages of one transaction come together, and transactions come in the order of their commits.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from airflow_backfill_provider.sources.postgres.arrays import array_as_json
from airflow_backfill_provider.sources.postgres.marks import MARK_PREFIX, Marks
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
    Value,
)
from airflow_backfill_provider.sources.shared.change_log.changes import LoggedChange, LoggedKind

NO_PARTITIONS = PartitionTrees()

_BY_PRIMARY_KEY = "d"


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
    marks: Marks,
    numbers_of: Callable[[Relation], Mapping[str, str]] = lambda _: {},
    trees: PartitionTrees = NO_PARTITIONS,
) -> Iterator[LoggedChange]:
    """
    Yield the rows of the change log.

    :param messages: the decoded messages of whole transactions.
    :param types_of: returns the types of a table's columns, as the change log records them.
    :param numbers_of: returns the numbers of a table's columns, as far as they are known.
    :param trees: the partitions of partitioned tables.
    :param marks: the marks of the change log; other messages are left out.
    :param after: leave out transactions that were committed at or before this LSN, because the log has them.
    :raises DecodingError: if messages come in an order that the protocol excludes.
    """
    relations: dict[int, Relation] = {}
    described: dict[int, _Columns] = {}
    transaction: dict[str, Any] | None = None
    number, is_logged = 0, False
    for message in messages:
        match message:
            case Begin():
                transaction, number = _of_transaction(message), 0
                is_logged = transaction["offset"] <= after
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
        if is_logged:
            continue
        for fields in _rows_of(message, relations, described, types_of, numbers_of, trees, marks):
            number += 1
            yield LoggedChange(number=number, **transaction, **fields)


def _of_transaction(begin: Begin) -> dict[str, Any]:
    """Return the fields that all rows of a transaction share."""
    return {
        "offset": offset_of_commit(begin.final_lsn),
        "transaction": begin.xid,
        "committed_at": begin.committed_at,
    }


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


def noting_identities(messages: Iterable[Message | None], found: set[int]) -> Iterator[Message | None]:
    """
    Yield messages, and note the tables with changes whose replica identity is not the primary key.

    :param found: gets the oid of each of them, or of its partition.
    """
    for message in messages:
        if isinstance(message, Relation) and message.identity != _BY_PRIMARY_KEY:
            found.add(message.oid)
        yield message


class _Columns:
    """
    Names the values of a table's rows.

    :param types: the types of the columns, as the change log records them.
    """

    def __init__(self, relation: Relation, types: Mapping[str, str]) -> None:
        self._relation = relation
        self._names = tuple(column.name for column in relation.columns)
        self._keys = tuple((index, column.name) for index, column in enumerate(relation.columns) if column.is_key)
        self._arrays = tuple(name for name in self._names if types[name].startswith("{"))

    def row(self, values: Tuple, old: Tuple | None = None) -> dict[str, str | None]:
        """
        Name the values of a row.

        :param old: the whole old row, to take unchanged values from.
        """
        self._require_width(values)
        if old is not None:
            values = tuple(before if value is UNCHANGED else value for value, before in zip(values, old, strict=True))
        return self._named(zip(self._names, values, strict=True))

    def key(self, values: Tuple) -> dict[str, str | None]:
        """Name the values of a row's replica identity."""
        self._require_width(values)
        return self._named([(name, values[index]) for index, name in self._keys])

    def _named(self, values: Iterable[tuple[str, Value]]) -> dict[str, str | None]:
        named = {name: value for name, value in values if value is not UNCHANGED}
        for name in self._arrays:
            text = named.get(name)
            # If its indexes do not begin with 1, an epoch that uses it fails; landing serves other tables, too.
            with contextlib.suppress(ValueError):
                if text is not None:
                    named[name] = array_as_json(text)
        return named

    def _require_width(self, values: Tuple) -> None:
        if len(values) != len(self._names):
            raise DecodingError(
                f"a row of {self._relation.namespace}.{self._relation.name} has {len(values)} values, but the table "
                f"has {len(self._names)} columns"
            )


def _rows_of(
    message: Message,
    relations: Mapping[int, Relation],
    described: dict[int, _Columns],
    types_of: Callable[[Relation], Mapping[str, str]],
    numbers_of: Callable[[Relation], Mapping[str, str]],
    trees: PartitionTrees,
    marks: Marks,
) -> Iterator[dict[str, Any]]:
    """Yield the fields of the rows that a message becomes."""
    if isinstance(message, LogicalMessage):
        text = marks.read(message.content) if message.prefix == MARK_PREFIX else None
        if text is not None:
            yield {"table": "", "kind": LoggedKind.MARK, "new": {"text": text}}
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
        types = types_of(relation)
        described[message.oid] = _Columns(relation, types)
        yield {
            "table": trees.table_of(message.oid),
            "kind": LoggedKind.COLUMNS,
            "old": numbers_of(relation) or None,
            "new": types,
        }
    yield {"table": trees.table_of(message.oid), **_change(message, described[message.oid])}


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
