"""Streams of messages become rows of a change log: the right ones, in order, each with its place."""

from __future__ import annotations

import datetime as dt

import pytest

from airflow_backfill_provider.sources.postgres.logged_changes import (
    logged_changes,
    noting_repeated,
    offset_of_commit,
)
from airflow_backfill_provider.sources.postgres.marks import BEGIN, MARK_PREFIX, Marks
from airflow_backfill_provider.sources.postgres.pgoutput import DecodingError, decode
from airflow_backfill_provider.sources.shared.change_log.changes import LoggedChange, LoggedKind
from tests.unit.sources.postgres import messages as m

ORDERS, ITEMS = 16_384, 16_390
AT = dt.datetime(2026, 3, 29, 1, 30, tzinfo=dt.UTC)
KEY, PLAIN = 1, 0
INT8, TEXT, TEXTS = (20, -1), (25, -1), (1009, -1)
NAMES = {20: "long", 25: "string", 1009: '{"type":"array","elementType":"string","containsNull":true}'}

COLUMNS = {"id": "long", "note": "string", "tags": NAMES[1009]}


def orders(identity="d", *more):
    """The message that describes the orders; all columns are the identity if it is full."""
    plain = KEY if identity == "f" else PLAIN
    return m.relation(
        ORDERS, "shop", "orders", identity, (KEY, "id", *INT8), (plain, "note", *TEXT), (plain, "tags", *TEXTS), *more
    )


def items():
    return m.relation(ITEMS, "shop", "items", "d", (KEY, "order", *INT8), (KEY, "number", *INT8), (PLAIN, "a", *TEXT))


def transaction(lsn, *messages, xid=7, at=AT):
    return [m.begin(lsn, at, xid), *messages, m.commit(lsn, at)]


MARKS = Marks("of the log")


def rows_of(*messages, after=0, described=None):
    """Return the rows of a stream; notes in ``described`` which tables were asked for their types."""

    def types_of(relation):
        if described is not None:
            described.append(relation.name)
        return {column.name: NAMES[column.type_oid] for column in relation.columns}

    return list(logged_changes(map(decode, messages), types_of, after=after, marks=MARKS))


def changes_of(*messages):
    """Return kind, old and new of the rows of one transaction with changes of the orders, without their columns."""
    found = rows_of(*transaction(100, orders(), *messages))
    assert found[0].kind is LoggedKind.COLUMNS
    return [(row.kind.value, row.old, row.new) for row in found[1:]]


def test_a_transaction_becomes_numbered_rows_with_its_offset_id_and_time():
    found = rows_of(
        *transaction(100, orders(), m.insert(ORDERS, "1", "a", None), m.delete(ORDERS, key=["1", None, None]))
    )
    place = {"offset": 101, "transaction": 7, "committed_at": AT, "table": str(ORDERS)}
    assert found == [
        LoggedChange(**place, number=1, kind=LoggedKind.COLUMNS, new=COLUMNS),
        LoggedChange(**place, number=2, kind=LoggedKind.INSERT, new={"id": "1", "note": "a", "tags": None}),
        LoggedChange(**place, number=3, kind=LoggedKind.DELETE, old={"id": "1"}),
    ]


def test_numbers_begin_again_with_each_transaction():
    later = AT + dt.timedelta(seconds=1)
    found = rows_of(
        *transaction(100, orders(), m.insert(ORDERS, "1", "a", None)),
        *transaction(200, m.insert(ORDERS, "2", "b", None), m.insert(ORDERS, "3", "c", None), xid=9, at=later),
    )
    assert [(row.offset, row.number, row.transaction, row.committed_at) for row in found] == [
        (101, 1, 7, AT),
        (101, 2, 7, AT),
        (201, 1, 9, later),
        (201, 2, 9, later),
    ]


def test_the_offset_is_after_the_first_byte_of_the_commit():
    """A slot returns what was committed before an LSN, and windows include their end."""
    assert offset_of_commit(100) == 101


def test_an_update_of_other_columns_has_the_key_as_its_old_row():
    assert changes_of(m.update(ORDERS, ["1", "b", "{x}"])) == [
        ("update", {"id": "1"}, {"id": "1", "note": "b", "tags": '["x"]'})
    ]


def test_an_update_of_the_key_has_the_old_key():
    assert changes_of(m.update(ORDERS, ["2", "b", None], key=["1", None, None])) == [
        ("update", {"id": "1"}, {"id": "2", "note": "b", "tags": None})
    ]


def test_a_value_that_was_not_logged_is_left_out_and_a_null_is_not():
    assert changes_of(
        m.update(ORDERS, ["1", m.ABSENT, None]),
        m.update(ORDERS, ["2", m.ABSENT, m.ABSENT], key=["1", None, None]),
    ) == [
        ("update", {"id": "1"}, {"id": "1", "tags": None}),
        ("update", {"id": "1"}, {"id": "2"}),
    ]


def test_a_long_key_that_did_not_change_is_in_the_new_row_too():
    assert changes_of(m.update(ORDERS, [m.ABSENT, "b", None], key=["1", None, None])) == [
        ("update", {"id": "1"}, {"id": "1", "note": "b", "tags": None})
    ]


def test_a_whole_old_row_has_the_values_that_were_not_logged_again():
    found = rows_of(
        *transaction(
            100,
            orders("f"),
            m.update(ORDERS, ["1", m.ABSENT, m.ABSENT], old=["1", "long", "{x,NULL}"]),
            m.update(ORDERS, ["2", m.ABSENT, "{y}"], old=["1", None, None]),
            m.delete(ORDERS, old=["2", None, "{y}"]),
        )
    )
    assert [(row.kind.value, row.old, row.new) for row in found[1:]] == [
        (
            "update",
            {"id": "1", "note": "long", "tags": '["x",null]'},
            {"id": "1", "note": "long", "tags": '["x",null]'},
        ),
        ("update", {"id": "1", "note": None, "tags": None}, {"id": "2", "note": None, "tags": '["y"]'}),
        ("delete", {"id": "2", "note": None, "tags": '["y"]'}, None),
    ]


def test_an_array_that_has_no_list_is_kept_as_it_is_written():
    """An epoch that uses the column fails. The landing does not: it is one for all tables of the slot."""
    assert changes_of(m.insert(ORDERS, "1", "{a}", "[0:1]={x,y}")) == [
        ("insert", None, {"id": "1", "note": "{a}", "tags": "[0:1]={x,y}"})
    ]


def test_an_old_key_has_all_columns_of_the_identity_wherever_they_stand():
    (_, deleted, updated) = rows_of(
        *transaction(
            100, items(), m.delete(ITEMS, key=["1", "2", None]), m.update(ITEMS, ["1", "3", "a"], key=["1", "2", None])
        )
    )
    assert deleted.old == updated.old == {"order": "1", "number": "2"}


def test_the_columns_are_logged_before_the_first_change_after_each_description():
    described = []
    added = (PLAIN, "extra", *TEXT)
    found = rows_of(
        *transaction(100, orders(), m.insert(ORDERS, "1", "a", None), m.insert(ORDERS, "2", "a", None)),
        *transaction(200, m.insert(ORDERS, "3", "a", None)),
        *transaction(
            300, orders("d", added), m.insert(ORDERS, "4", "a", None, "x"), m.insert(ORDERS, "5", "a", None, "x")
        ),
        described=described,
    )
    assert [(row.offset, row.kind.value) for row in found] == [
        (101, "columns"),
        (101, "insert"),
        (101, "insert"),
        (201, "insert"),
        (301, "columns"),
        (301, "insert"),
        (301, "insert"),
    ]
    assert (found[0].new, found[4].new) == (COLUMNS, {**COLUMNS, "extra": "string"})
    assert found[5].new == {"id": "4", "note": "a", "tags": None, "extra": "x"}
    assert described == ["orders", "orders"]


def test_a_table_that_is_described_but_not_changed_gets_no_row():
    described = []
    assert rows_of(*transaction(100, orders(), items()), described=described) == []
    assert described == []


def test_tables_are_told_apart():
    found = rows_of(
        *transaction(100, orders(), items(), m.insert(ITEMS, "1", "2", "a"), m.insert(ORDERS, "1", "b", None))
    )
    assert [(row.table, row.kind.value) for row in found] == [
        (str(ITEMS), "columns"),
        (str(ITEMS), "insert"),
        (str(ORDERS), "columns"),
        (str(ORDERS), "insert"),
    ]


def test_a_truncation_is_a_row_for_each_table_and_needs_no_columns():
    found = rows_of(*transaction(100, m.truncate(ORDERS, ITEMS)))
    assert [(row.number, row.table, row.kind.value, row.old, row.new) for row in found] == [
        (1, str(ORDERS), "truncate", None, None),
        (2, str(ITEMS), "truncate", None, None),
    ]


def test_marks_are_our_own_messages_within_transactions():
    found = rows_of(
        m.logical(MARK_PREFIX, b"not transactional", transactional=False),
        *transaction(
            100,
            m.logical("another program", b"\xff"),
            m.logical(MARK_PREFIX, BEGIN.encode()),
            m.logical(MARK_PREFIX, b"not transactional", transactional=False),
        ),
    )
    assert [(row.number, row.table, row.kind.value, row.old, row.new) for row in found] == [
        (1, "", "mark", None, {"text": BEGIN})
    ]


def test_of_messages_with_our_prefix_only_signed_ones_are_marks():
    """Whoever may connect may write messages with any prefix and any bytes."""
    strange = [b"\xff\xfe", b"job/1/2", b"job/1/2 ", b"", MARKS.text("job/1/2").encode()[:-1], b"job/1/2 \xc3\xa4"]
    forged = [*strange, Marks("another").text("job/1/2").encode()]
    messages = [*(m.logical(MARK_PREFIX, content) for content in forged), m.logical(MARK_PREFIX, b"begin")]
    found = rows_of(*transaction(100, *messages, m.logical(MARK_PREFIX, MARKS.text("job/1/2").encode())))
    assert [row.new["text"] for row in found] == ["begin", MARKS.text("job/1/2")]


def test_messages_that_no_change_depends_on_are_passed_over():
    found = rows_of(m.type_(), *transaction(100, m.origin(), orders(), m.type_(), m.insert(ORDERS, "1", "a", None)))
    assert [row.number for row in found] == [1, 2]


@pytest.mark.parametrize(
    ("after", "offsets"), [(0, {101, 201}), (100, {101, 201}), (101, {201}), (200, {201}), (201, set())]
)
def test_what_was_committed_at_or_before_the_end_of_the_log_is_left_out(after, offsets):
    stream = (
        *transaction(100, orders(), m.insert(ORDERS, "1", "a", None), m.truncate(ITEMS), m.logical(MARK_PREFIX, b"a")),
        *transaction(200, m.insert(ORDERS, "2", "a", None)),
    )
    assert {row.offset for row in rows_of(*stream, after=after)} == offsets


def test_columns_that_came_with_a_transaction_that_is_left_out_are_logged_with_the_next():
    """A landing that skips what the log has already gets the description with it, only once."""
    found = rows_of(
        *transaction(100, orders(), m.insert(ORDERS, "1", "a", None)),
        *transaction(200, m.insert(ORDERS, "2", "b", None)),
        after=101,
    )
    assert [(row.offset, row.number, row.kind.value) for row in found] == [(201, 1, "columns"), (201, 2, "insert")]
    assert found[0].new == COLUMNS


def test_rows_come_while_messages_are_read():
    """A large transaction need not fit into memory."""
    read = []

    def stream():
        for message in transaction(100, orders(), *(m.insert(ORDERS, str(i), "a", None) for i in range(10))):
            read.append(message)
            yield decode(message)

    found = logged_changes(
        stream(), lambda relation: dict.fromkeys((c.name for c in relation.columns), "string"), after=0, marks=MARKS
    )
    next(found), next(found)
    assert len(read) == 3


CHANGE = m.insert(ORDERS, "1", "a", None)


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([orders(), CHANGE], "a insert does not belong to a transaction"),
        ([*transaction(100, orders(), CHANGE), CHANGE], "a insert does not belong to a transaction"),
        ([m.truncate(ORDERS)], "a truncate does not belong to a transaction"),
        ([m.logical(MARK_PREFIX, b"a")], "a logicalmessage does not belong to a transaction"),
        (transaction(100, CHANGE), f"a change of table {ORDERS} came before the table's columns"),
        (transaction(100, items(), CHANGE), f"a change of table {ORDERS} came before the table's columns"),
    ],
)
def test_messages_in_an_order_that_the_protocol_excludes_are_refused(messages, said):
    with pytest.raises(DecodingError, match=f"^{said}$"):
        rows_of(*messages)


@pytest.mark.parametrize(
    "change",
    [
        m.insert(ORDERS, "1", "a"),
        m.insert(ORDERS, "1", "a", None, None),
        m.insert(ORDERS),
        m.delete(ORDERS, key=["1"]),
        m.delete(ORDERS, old=["1"]),
        m.update(ORDERS, ["1", "a"]),
        m.update(ORDERS, ["1"], key=["1", None, None]),
        m.update(ORDERS, ["1", "a", None], key=["1"]),
        m.update(ORDERS, ["1", "a", m.ABSENT], old=["1", "a"]),
        m.update(ORDERS, ["1", "a"], old=["1", "a", None]),
    ],
)
def test_a_row_of_another_width_than_its_table_is_refused(change):
    with pytest.raises(DecodingError, match=r"a row of shop\.orders has \d values, but the table has 3 columns"):
        changes_of(change)


def test_transactions_that_come_again_are_noted():
    """Those with changes of rows; the messages come through unchanged."""
    messages = [
        *transaction(100, orders(), m.insert(ORDERS, "1", "a", None)),
        *transaction(150, m.logical(MARK_PREFIX, b"read"), xid=8),
        *transaction(200, m.delete(ORDERS, key=["1", None, None]), xid=9),
        *transaction(300, m.insert(ORDERS, "2", "a", None), xid=10),
    ]
    decoded, repeated = list(map(decode, messages)), set()
    assert list(noting_repeated(decoded, 201, repeated)) == decoded
    assert repeated == {(101, 7), (201, 9)}
