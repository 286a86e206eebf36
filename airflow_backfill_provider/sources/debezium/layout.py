"""
Where a table of Debezium's events has what: envelopes as Debezium writes them, or events that its transform flattened.

An envelope has the row before and after the change in two columns. A flattened event has the columns of the row itself,
and beside them some fields of the envelope, whose names begin with two underscores.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_backfill_provider.core.errors import UpstreamError

Path = tuple[str, ...]
"""The names of a column and of the fields inside it."""

_WHOLE_NUMBERS = ("long", "integer")

_OPERATION, _POSITION, _DELETED = "__op", ("__lsn", "__source_lsn"), "__deleted"
_TIME, _TRANSACTION = ("__source_ts_ms",), ("__txId", "__source_txId")
_OF_TRANSFORM = "__"
"""How the names of the columns begin that Debezium's transform adds to a row."""

_FLATTENED = (
    "transforms.unwrap.add.fields=op,lsn,txId,source.ts_ms and "
    "transforms.unwrap.delete.tombstone.handling.mode=rewrite (delete.handling.mode=rewrite before Debezium 2.5)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLayout:
    """
    The paths of a table of events.

    :param new: the row after the change; empty if its columns stand at the top.
    :param old: the row before the change; ``None`` if events have only one row.
    :param old_columns: the columns of the row before the change.
    :param operation: the kind of the event.
    :param position: the position in the database's log.
    :param committed_at: when the database committed the change, in milliseconds; ``None`` if events lack it.
    :param transaction: the id of the database's transaction; ``None`` if events lack it.
    :param types: the row's columns → type, as Delta writes it.
    """

    new: Path
    old: Path | None
    old_columns: frozenset[str] = frozenset()
    operation: Path
    position: Path
    committed_at: Path | None
    transaction: Path | None
    types: Mapping[str, str]


def layout_of(location: str, types: Mapping[str, str]) -> EventLayout:
    """
    Return the layout of a table of events.

    :param location: the table's location, for messages.
    :param types: the table's columns → type, as Delta writes it.
    :raises UpstreamError: if the table has no events, or lacks what is needed; with what to set in Debezium.
    """
    payload = types.get("payload", "")
    if "op" in types:
        return _envelope(location, (), dict(types))
    if payload.startswith("{") and "op" in (fields := dict(_fields(payload))):
        return _envelope(location, ("payload",), fields)
    if _OPERATION in types:
        return _flattened(location, types)
    raise UpstreamError(
        f"{location} has no events of Debezium: neither a column op, as in its envelopes, nor a column {_OPERATION}, "
        f"as in flattened events (set {_FLATTENED})"
    )


def _envelope(location: str, root: Path, fields: Mapping[str, str]) -> EventLayout:
    rows = fields.get("after", "")
    if not _is_struct(rows):
        raise UpstreamError(
            f"{location}: column {'.'.join((*root, 'after'))} is {rows or 'missing'}, not a struct with the table's "
            "columns; parse the events into structs when they are landed"
        )
    has_old = _is_struct(fields.get("before", ""))
    source = dict(_fields(fields.get("source", ""))) if _is_struct(fields.get("source", "")) else {}
    if source.get("lsn") not in _WHOLE_NUMBERS:
        raise UpstreamError(
            f"{location}: the events have no whole number in {'.'.join((*root, 'source', 'lsn'))}, by which changes "
            "are ordered; land it too. Only events of PostgreSQL are supported so far"
        )
    return EventLayout(
        new=(*root, "after"),
        old=(*root, "before") if has_old else None,
        old_columns=frozenset(dict(_fields(fields["before"]))) if has_old else frozenset(),
        operation=(*root, "op"),
        position=(*root, "source", "lsn"),
        committed_at=(*root, "source", "ts_ms") if source.get("ts_ms") in _WHOLE_NUMBERS else None,
        transaction=(*root, "source", "txId") if source.get("txId") in _WHOLE_NUMBERS else None,
        types=dict(_fields(rows)),
    )


def _flattened(location: str, types: Mapping[str, str]) -> EventLayout:
    def first(names: tuple[str, ...]) -> Path | None:
        return next(((name,) for name in names if types.get(name) in _WHOLE_NUMBERS), None)

    position = first(_POSITION)
    if position is None or _DELETED not in types:
        lacking = _DELETED if position else _POSITION[0]
        raise UpstreamError(
            f"{location}: the flattened events have no column {lacking}, without which "
            f"{'deletes are missing' if position else 'changes have no order'}; set {_FLATTENED}"
        )
    return EventLayout(
        new=(),
        old=None,
        operation=(_OPERATION,),
        position=position,
        committed_at=first(_TIME),
        transaction=first(_TRANSACTION),
        types={name: kind for name, kind in types.items() if not name.startswith(_OF_TRANSFORM)},
    )


def _is_struct(kind: str) -> bool:
    return kind.startswith("{") and json.loads(kind).get("type") == "struct"


def _fields(kind: str) -> Iterator[tuple[str, str]]:
    """Yield the fields of a struct with their types."""
    for field in json.loads(kind).get("fields", ()):
        found: Any = field["type"]
        yield field["name"], found if isinstance(found, str) else json.dumps(found, sort_keys=True)
