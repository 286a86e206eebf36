"""Logical replication messages, byte by byte, as PostgreSQL's manual describes them (version 1 of the protocol)."""

from __future__ import annotations

import datetime as dt
import struct

EPOCH = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)

ABSENT = object()
"""A value that was not logged, because it is stored out of line and did not change."""


def text(value):
    return value.encode() + b"\0"


def micros(instant):
    return (instant - EPOCH) // dt.timedelta(microseconds=1)


def begin(lsn, committed_at, xid=7):
    return b"B" + struct.pack("!QqI", lsn, micros(committed_at), xid)


def commit(lsn, committed_at=EPOCH, end=None):
    return b"C" + struct.pack("!BQQq", 0, lsn, lsn + 8 if end is None else end, micros(committed_at))


def relation(oid, namespace, name, identity, *columns):
    """Each column is its flags, name, oid of its type and modifier."""
    head = b"R" + struct.pack("!I", oid) + text(namespace) + text(name) + identity.encode()
    body = (struct.pack("!B", flags) + text(column) + struct.pack("!Ii", *kind) for flags, column, *kind in columns)
    return head + struct.pack("!H", len(columns)) + b"".join(body)


def row(*values):
    written = struct.pack("!H", len(values))
    for value in values:
        if value is None:
            written += b"n"
        elif value is ABSENT:
            written += b"u"
        else:
            encoded = value.encode()
            written += b"t" + struct.pack("!I", len(encoded)) + encoded
    return written


def insert(oid, *new):
    return b"I" + struct.pack("!I", oid) + b"N" + row(*new)


def update(oid, new, *, key=None, old=None):
    before = b"K" + row(*key) if key is not None else b"O" + row(*old) if old is not None else b""
    return b"U" + struct.pack("!I", oid) + before + b"N" + row(*new)


def delete(oid, *, key=None, old=None):
    return b"D" + struct.pack("!I", oid) + (b"K" + row(*key) if key is not None else b"O" + row(*old))


def truncate(*oids, options=0):
    return b"T" + struct.pack("!IB", len(oids), options) + b"".join(struct.pack("!I", oid) for oid in oids)


def logical(prefix, content, *, transactional=True, lsn=0):
    return b"M" + struct.pack("!BQ", transactional, lsn) + text(prefix) + struct.pack("!I", len(content)) + content


def origin(name="elsewhere"):
    return b"O" + struct.pack("!Q", 5) + text(name)


def type_(oid=16_400, namespace="public", name="mood"):
    return b"Y" + struct.pack("!I", oid) + text(namespace) + text(name)
