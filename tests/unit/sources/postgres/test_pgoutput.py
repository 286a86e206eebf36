"""Decoding logical replication messages, which :mod:`messages` writes byte by byte."""

from __future__ import annotations

import datetime as dt
import struct
from functools import partial

import pytest

from airflow_backfill_provider.sources.postgres.pgoutput import (
    UNCHANGED,
    Begin,
    Commit,
    DecodingError,
    Delete,
    Insert,
    LogicalMessage,
    Relation,
    RelationColumn,
    Truncate,
    Update,
    decode,
)
from airflow_backfill_provider.sources.shared.change_log.changes import UNREADABLE
from tests.unit.sources.postgres import messages as m

NOW = dt.datetime(2026, 3, 29, 1, 30, 0, 123_456, tzinfo=dt.UTC)
BIG = 2**64 - 1

MESSAGES = {
    "begin": (m.begin(0x16B374D848, NOW, 2**32 - 1), Begin(0x16B374D848, NOW, 2**32 - 1)),
    "begin before 2000": (
        m.begin(BIG, dt.datetime(1999, 1, 1, tzinfo=dt.UTC)),
        Begin(BIG, dt.datetime(1999, 1, 1, tzinfo=dt.UTC), 7),
    ),
    "commit": (m.commit(16, NOW, BIG), Commit(BIG)),
    "relation": (
        m.relation(16_384, "shop", "Örders", "d", (1, "id", 20, -1), (0, "a b", 1700, 655_366)),
        Relation(
            16_384,
            "shop",
            "Örders",
            "d",
            (RelationColumn("id", True, 20, -1), RelationColumn("a b", False, 1700, 655_366)),
        ),
    ),
    "relation of the catalog": (m.relation(1, "", "t", "n"), Relation(1, "pg_catalog", "t", "n", ())),
    "relation with other flags": (
        m.relation(1, "s", "t", "f", (0b10, "a", 23, -1), (0b11, "b", 23, -1)),
        Relation(1, "s", "t", "f", (RelationColumn("a", False, 23, -1), RelationColumn("b", True, 23, -1))),
    ),
    "insert": (m.insert(5, "1", None, "", "ä€😀", "\n"), Insert(5, ("1", None, "", "ä€😀", "\n"))),
    "insert of nothing": (m.insert(2**32 - 1), Insert(2**32 - 1, ())),
    "update": (m.update(5, ["1", "a", m.ABSENT]), Update(5, None, False, ("1", "a", UNCHANGED))),
    "update of a key": (
        m.update(5, ["2", "b"], key=["1", None]),
        Update(5, ("1", None), True, ("2", "b")),
    ),
    "update of a whole row": (
        m.update(5, ["2", m.ABSENT], old=["1", "a"]),
        Update(5, ("1", "a"), False, ("2", UNCHANGED)),
    ),
    "delete": (m.delete(5, key=["1", None]), Delete(5, ("1", None), True)),
    "delete of a whole row": (m.delete(5, old=["1", "a"]), Delete(5, ("1", "a"), False)),
    "truncate": (m.truncate(5), Truncate((5,))),
    "truncate of several": (m.truncate(5, 6, 2**32 - 1, options=3), Truncate((5, 6, 2**32 - 1))),
    "logical message": (m.logical("ours", b"\0\xff", lsn=BIG), LogicalMessage(True, BIG, "ours", b"\0\xff")),
    "logical message on its own": (
        m.logical("", b"", transactional=False),
        LogicalMessage(False, 0, "", b""),
    ),
}


@pytest.mark.parametrize(("message", "expected"), MESSAGES.values(), ids=MESSAGES)
def test_each_kind_of_message_is_decoded(message, expected):
    assert decode(message) == expected


@pytest.mark.parametrize("message", [m.origin(), m.type_()])
def test_a_message_that_no_change_depends_on_is_ignored(message):
    assert decode(message) is None


@pytest.mark.parametrize("message", [message for message, _ in MESSAGES.values()], ids=list(MESSAGES))
def test_a_message_that_is_cut_off_anywhere_is_refused(message):
    for length in range(len(message)):
        with pytest.raises(DecodingError):
            decode(message[:length])


def test_an_unknown_kind_is_refused():
    for kind in set(range(256)) - set(b"BCRIUDTMOY"):
        with pytest.raises(DecodingError, match="is of the unknown kind"):
            decode(bytes([kind]) + bytes(100))


def test_no_message_at_all_is_refused():
    with pytest.raises(DecodingError, match="unknown kind b''"):
        decode(b"")


def oid_and(rest):
    return struct.pack("!I", 5) + rest


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (b"I" + oid_and(b"X" + m.row("1")), "a row begins with 'X' instead of 'N'"),
        (b"I" + oid_and(b"O" + m.row("1")), "a row begins with 'O' instead of 'N'"),
        (b"U" + oid_and(b"X" + m.row("1")), "a row begins with 'X' instead of 'N'"),
        (b"U" + oid_and(b"K" + m.row("1") + b"K" + m.row("1")), "a row begins with 'K' instead of 'N'"),
        (b"D" + oid_and(b"N" + m.row("1")), "neither a key nor an old row, but 'N'"),
        # A binary value, which only version 2 has where it is asked for.
        (b"I" + oid_and(b"N" + struct.pack("!H", 1) + b"b" + struct.pack("!I", 1) + b"1"), "of the unknown kind 'b'"),
        (b"I" + oid_and(b"N" + struct.pack("!H", 1) + b"t" + struct.pack("!I", 2**32 - 1) + b"1"), "ends too early"),
        (b"R" + oid_and(b"\xff\0" + b"t\0" + b"d" + struct.pack("!H", 0)), "cannot be decoded"),
        (b"T" + struct.pack("!IB", 2**32 - 1, 0), "cannot be decoded"),
        # An instant that Python does not have.
        (b"B" + struct.pack("!QqI", 1, 2**63 - 1, 7), "cannot be decoded"),
        (b"B" + struct.pack("!QqI", 1, -(2**63), 7), "cannot be decoded"),
    ],
)
def test_what_is_not_in_the_documented_format_is_refused(message, said):
    with pytest.raises(DecodingError, match=said) as refused:
        decode(message)
    assert refused.value.__cause__ is None


def test_a_value_whose_bytes_are_no_text_stands_for_itself():
    """I6: it may be one of a column that no job uses, and the other changes go on."""
    value = struct.pack("!I", 1) + b"\xff"
    message = b"I" + oid_and(b"N" + struct.pack("!H", 2) + b"t" + value + b"t" + struct.pack("!I", 1) + b"a")
    assert decode(message) == Insert(5, (UNREADABLE, "a"))


def test_names_and_values_may_be_in_another_encoding():
    latin1 = partial(bytes.decode, encoding="latin-1")
    message = b"I" + oid_and(b"N" + struct.pack("!H", 1) + b"t" + struct.pack("!I", 1) + b"\xe4")
    assert decode(message, latin1) == Insert(5, ("ä",))
    relation = b"R" + oid_and(b"\xe4\0" + b"t\0" + b"d" + struct.pack("!H", 0))
    assert decode(relation, latin1) == Relation(5, "ä", "t", "d", ())
