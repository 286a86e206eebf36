"""
Decodes PostgreSQL's logical replication messages, version 1 of the protocol of its plugin ``pgoutput``.

The format is documented in PostgreSQL's manual, *Logical Replication Message Formats*. Values are text, as the types'
output functions write them.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from airflow_backfill_provider.sources.shared.change_log.changes import UNREADABLE

_EPOCH = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
_INT16, _INT32, _INT64 = struct.Struct("!H"), struct.Struct("!I"), struct.Struct("!Q")
_BEGIN, _COMMIT = struct.Struct("!QqI"), struct.Struct("!BQQq")
_COLUMN_TYPE = struct.Struct("!Ii")
_TEXT, _NULL, _NOT_SENT = b"tnu"
_IS_KEY = 1
_IS_TRANSACTIONAL = 1


Texts = Callable[[bytes], str]
"""Returns the text of bytes that a message has."""


def text_of(value: bytes) -> str:
    """Return a text in UTF-8; :data:`UNREADABLE` for bytes that are none: a database may have no encoding."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return UNREADABLE


class DecodingError(ValueError):
    """A message does not have the documented format."""


class Missing(Enum):
    """A value that a message leaves out, because it is stored out of line (TOAST) and did not change."""

    UNCHANGED = "unchanged"


UNCHANGED = Missing.UNCHANGED

Value = str | None | Missing
Tuple = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Begin:
    """
    The first message of a transaction.

    :param final_lsn: the LSN of its commit.
    :param committed_at: when it was committed.
    :param xid: its transaction id, of 32 bits.
    """

    final_lsn: int
    committed_at: dt.datetime
    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    """
    The last message of a transaction.

    :param end_lsn: the LSN after its commit; a slot that has this position does not return the transaction again.
    """

    end_lsn: int


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """
    A column of a published table.

    :param is_key: whether it is part of the replica identity.
    :param type_oid: the oid of its type.
    :param type_modifier: such as the precision and scale of a numeric; -1 for none.
    """

    name: str
    is_key: bool
    type_oid: int
    type_modifier: int


@dataclass(frozen=True, slots=True)
class Relation:
    """
    A table's columns; comes before its first change, and again after they change.

    :param oid: the table's oid.
    :param identity: its replica identity: ``d`` for default, ``f`` for full, ``i`` for an index, ``n`` for nothing.
    """

    oid: int
    namespace: str
    name: str
    identity: str
    columns: tuple[RelationColumn, ...]


@dataclass(frozen=True, slots=True)
class Insert:
    """A new row."""

    oid: int
    new: Tuple


@dataclass(frozen=True, slots=True)
class Update:
    """
    A row that changed.

    :param old: the old row, or its key columns if ``old_is_key``; ``None`` if the key did not change and the replica
        identity is not full.
    """

    oid: int
    old: Tuple | None
    old_is_key: bool
    new: Tuple


@dataclass(frozen=True, slots=True)
class Delete:
    """
    A row that was deleted.

    :param old: the old row, or its key columns if ``old_is_key``.
    """

    oid: int
    old: Tuple
    old_is_key: bool


@dataclass(frozen=True, slots=True)
class Truncate:
    """
    Tables that were emptied.

    :param oids: the published ones among them.
    """

    oids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LogicalMessage:
    """
    What ``pg_logical_emit_message`` wrote.

    :param transactional: whether it is part of a transaction.
    """

    transactional: bool
    lsn: int
    prefix: str
    content: bytes


Message = Begin | Commit | Relation | Insert | Update | Delete | Truncate | LogicalMessage


class _Reader:
    """Reads a message's fields one after the other."""

    __slots__ = ("_at", "_message", "_text")

    def __init__(self, message: bytes, text: Texts) -> None:
        self._message = message
        self._text = text
        self._at = 1

    def unpack(self, format_: struct.Struct) -> tuple[int, ...]:
        """Read numbers."""
        values: tuple[int, ...] = format_.unpack_from(self._message, self._at)
        self._at += format_.size
        return values

    def byte(self) -> int:
        """Read one byte."""
        value = self._message[self._at]
        self._at += 1
        return value

    def int16(self) -> int:
        """Read a number of 16 bits."""
        return self.unpack(_INT16)[0]

    def int32(self) -> int:
        """Read a number of 32 bits."""
        return self.unpack(_INT32)[0]

    def string(self) -> str:
        """Read a text that ends with a zero byte."""
        end = self._message.index(b"\0", self._at)
        text = self._text(self._message[self._at : end])
        if text == UNREADABLE:
            raise ValueError("a name is no text")
        self._at = end + 1
        return text

    def bytes(self, size: int) -> bytes:
        """Read a number of bytes."""
        end = self._at + size
        if end > len(self._message):
            raise DecodingError("the message ends too early")
        found = self._message[self._at : end]
        self._at = end
        return found

    def tuple(self) -> Tuple:
        """Read a row; most of a landing's time goes by here, so it calls no methods for a value."""
        message, text, values = self._message, self._text, list[Value]()
        for _ in range(self.int16()):
            kind, at = message[self._at], self._at + 1
            if kind == _TEXT:
                begin = at + _INT32.size
                at = begin + _INT32.unpack_from(message, at)[0]
                if at > len(message):
                    raise DecodingError("the message ends too early")
                values.append(text(message[begin:at]))
            elif kind == _NULL:
                values.append(None)
            elif kind == _NOT_SENT:
                values.append(UNCHANGED)
            else:
                raise DecodingError(f"a value is of the unknown kind {chr(kind)!r}")
            self._at = at
        return tuple(values)


def decode(message: bytes, text: Texts = text_of) -> Message | None:
    """
    Decode a message.

    :param text: returns the text of names and values; by default, they are in UTF-8.
    :returns: ``None`` for a message about something that no change depends on, such as the origin of a transaction.
    :raises DecodingError: if it is not of version 1 of the protocol, or cut off.
    """
    kind = message[:1]
    if kind in _IGNORED:
        return None
    decoder = _DECODERS.get(kind)
    if decoder is None:
        raise DecodingError(f"a replication message is of the unknown kind {kind!r}")
    try:
        return decoder(_Reader(message, text))
    except (struct.error, IndexError, OverflowError, ValueError) as error:
        if isinstance(error, DecodingError):
            raise
        raise DecodingError(f"a replication message of kind {kind!r} cannot be decoded: {error}") from None


def _begin(fields: _Reader) -> Begin:
    lsn, microseconds, xid = fields.unpack(_BEGIN)
    return Begin(lsn, _EPOCH + dt.timedelta(microseconds=microseconds), xid)


def _commit(fields: _Reader) -> Commit:
    _, _, end_lsn, _ = fields.unpack(_COMMIT)
    return Commit(end_lsn)


def _relation(fields: _Reader) -> Relation:
    oid, namespace, name, identity = fields.int32(), fields.string(), fields.string(), chr(fields.byte())
    columns = tuple(_relation_column(fields) for _ in range(fields.int16()))
    return Relation(oid, namespace or "pg_catalog", name, identity, columns)


def _relation_column(fields: _Reader) -> RelationColumn:
    is_key, name = bool(fields.byte() & _IS_KEY), fields.string()
    type_oid, modifier = fields.unpack(_COLUMN_TYPE)
    return RelationColumn(name, is_key, type_oid, modifier)


def _insert(fields: _Reader) -> Insert:
    oid = fields.int32()
    _require(fields.byte(), "N")
    return Insert(oid, fields.tuple())


def _update(fields: _Reader) -> Update:
    oid, kind = fields.int32(), chr(fields.byte())
    old, old_is_key = None, kind == "K"
    if kind in "KO":
        old = fields.tuple()
        kind = chr(fields.byte())
    _require(ord(kind), "N")
    return Update(oid, old, old_is_key, fields.tuple())


def _delete(fields: _Reader) -> Delete:
    oid, kind = fields.int32(), chr(fields.byte())
    if kind not in "KO":
        raise DecodingError(f"a delete has neither a key nor an old row, but {kind!r}")
    return Delete(oid, fields.tuple(), kind == "K")


def _truncate(fields: _Reader) -> Truncate:
    count = fields.int32()
    fields.byte()
    return Truncate(tuple(fields.int32() for _ in range(count)))


def _logical_message(fields: _Reader) -> LogicalMessage:
    transactional = bool(fields.byte() & _IS_TRANSACTIONAL)
    lsn, prefix = fields.unpack(_INT64)[0], fields.string()
    return LogicalMessage(transactional, lsn, prefix, fields.bytes(fields.int32()))


def _require(found: int, expected: str) -> None:
    if chr(found) != expected:
        raise DecodingError(f"a row begins with {chr(found)!r} instead of {expected!r}")


_DECODERS: dict[bytes, Callable[[_Reader], Message]] = {
    b"B": _begin,
    b"C": _commit,
    b"R": _relation,
    b"I": _insert,
    b"U": _update,
    b"D": _delete,
    b"T": _truncate,
    b"M": _logical_message,
}

_IGNORED = frozenset({b"O", b"Y"})
"""The origin of a transaction, and the name of a type."""
