"""
The ground that the models stand on: key order, change feed, net changes, and strategies that reach what they
promise.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.checks import DETERMINISTIC
from tests.model.truth import paid_in_cents
from tests.model.upstream import ChangeType, KeyOrder, Upstream, as_stream, net_changes
from tests.strategies import (
    KEY_VALUES,
    Delete,
    Insert,
    Key,
    KeyColumn,
    KeyValue,
    Row,
    Scenario,
    Update,
    Write,
    histories,
    key_columns,
    key_pools,
    scenarios,
    tables,
)

if TYPE_CHECKING:
    from collections.abc import Callable


@st.composite
def upstreams(draw: st.DrawFn) -> Upstream:
    columns = draw(key_columns())
    pool = draw(key_pools(columns))
    initial = draw(tables(pool))
    upstream = Upstream(columns, initial)
    for write in draw(histories(pool, initial)):
        upstream.write(write)
    return upstream


@pytest.mark.slow
@DETERMINISTIC
@given(upstreams(), st.data())
def test_changes_lead_from_one_version_to_a_later_one(upstream: Upstream, data: st.DataObject) -> None:
    """
    I1 rests on it: applying a window's changes, in stream order or net, turns one version into the other.
    """
    up_to = data.draw(st.integers(0, upstream.latest))
    after = data.draw(st.integers(0, up_to))
    changes = upstream.changes(after, up_to)

    streamed, merged = upstream.as_of(after), upstream.as_of(after)
    for change in as_stream(changes):
        if change.writes:
            assert change.row.key not in streamed
            streamed[change.row.key] = change.row
        else:
            assert streamed.pop(change.row.key) == change.row
    for key, row in net_changes(changes).items():
        merged.pop(key, None)
        if row is not None:
            merged[key] = row

    assert streamed == merged == upstream.as_of(up_to)


@pytest.mark.slow
@DETERMINISTIC
@given(upstreams(), st.data())
def test_chunks_cut_the_table_once(upstream: Upstream, data: st.DataObject) -> None:
    """I1 rests on it: every row lies either at or before a position, or after it, and keys come in order."""
    table = upstream.as_of(upstream.latest)
    position = data.draw(st.none() | st.sampled_from(sorted(table, key=upstream.order.rank)) if table else st.none())
    later = [row.key for row in upstream.rows_after(upstream.latest, position)]
    passed = [] if position is None else [key for key in table if upstream.order.at_or_before(key, position)]
    assert passed + later == list(table) == upstream.order.sort(table)


@pytest.mark.parametrize(
    ("columns", "in_order"),
    [
        ([KeyColumn("k")], [(None,), (-1,), (0,), (2**63 - 1,)]),
        ([KeyColumn("k", descending=True)], [(None,), (7,), (0,), (-1,)]),
        ([KeyColumn("k", "string")], [(None,), ("",), ("Z",), ("a",), ("ä",), ("\ufffd",), ("\U00010000",)]),
        ([KeyColumn("k", "binary")], [(None,), (b"",), (b"\x00",), (b"\x7f",), (b"\x80",)]),
        ([KeyColumn("k", "boolean", descending=True)], [(None,), (True,), (False,)]),
        (
            [KeyColumn("a", "decimal(20,2)"), KeyColumn("b", "date", descending=True)],
            [(None, None), (Decimal("-0.01"), None), (Decimal("0.00"), None)],
        ),
        (
            [KeyColumn("a"), KeyColumn("b", "string", descending=True)],
            [(None, None), (None, "b"), (None, "a"), (1, None), (1, "b"), (1, ""), (2, "z")],
        ),
    ],
)
def test_keys_sort_by_all_columns_with_nulls_first(columns: list[KeyColumn], in_order: list[Key]) -> None:
    """
    Semantics 1: storage order of all key columns, nulls first, each direction its own, strings by bytes.
    """
    assert KeyOrder(columns).sort(reversed(in_order)) == in_order


def test_feed_of_a_key_swap() -> None:
    """
    Semantics 5: the feed of a swap shows both keys removed and both written, and the rows survive the
    netting.
    """
    zero, five = Row((0,), amount=1), Row((5,), amount=2)
    upstream = Upstream([KeyColumn("id")], [zero, five])
    upstream.write(Write((Update((0,), Row((5,), amount=1)), Update((5,), Row((0,), amount=2)))))
    changes = upstream.changes(0, 1)
    assert [(change.type, change.row.key) for change in changes] == [
        (ChangeType.UPDATE_PREIMAGE, (0,)),
        (ChangeType.UPDATE_POSTIMAGE, (5,)),
        (ChangeType.UPDATE_PREIMAGE, (5,)),
        (ChangeType.UPDATE_POSTIMAGE, (0,)),
    ]
    assert net_changes(changes) == {(0,): Row((0,), amount=2), (5,): Row((5,), amount=1)}


def test_feed_of_several_changes_of_one_key() -> None:
    """Semantics 5: the latest version wins, and a replaced row is no deleted one."""
    upstream = Upstream([KeyColumn("id")], [Row((1,), amount=1), Row((2,), amount=2)])
    upstream.write(Write((Delete((1,)), Insert(Row((1,), amount=10)), Update((2,), Row((3,), amount=2)))))
    upstream.write(Write((Update((1,), Row((1,), amount=20)), Insert(Row((2,), amount=200)), Delete((3,)))))
    assert net_changes(upstream.changes(0, 2)) == {
        (1,): Row((1,), amount=20),
        (2,): Row((2,), amount=200),
        (3,): None,
    }


@pytest.mark.parametrize(
    "operations",
    [(Insert(Row((1,))),), (Delete((2,)),), (Delete((1,)), Delete((1,))), (Update((2,), Row((3,))),)],
)
def test_an_impossible_write_is_refused(operations: tuple[Insert | Delete | Update, ...]) -> None:
    """A description that no table could follow is a mistake of the test that uses it."""
    with pytest.raises(ValueError, match=r"no row to change|the key is taken"):
        Write(operations).applied_to({(1,): Row((1,))})


def _in_some_write(test: Callable[[Write, dict[Key, Row]], bool]) -> Callable[[Scenario], bool]:
    def anywhere(scenario: Scenario) -> bool:
        table = {row.key: row for row in scenario.initial}
        found = False
        for event in scenario.events:
            if isinstance(event, Write):
                found = found or test(event, table)
                table = event.applied_to(table)
        return found

    return anywhere


def _moves(write: Write) -> set[tuple[Key, Key]]:
    return {(op.key, op.row.key) for op in write.operations if isinstance(op, Update) and op.key != op.row.key}


def _status_turns(write: Write, table: dict[Key, Row]) -> set[tuple[bool, bool]]:
    updates = [op for op in write.operations if isinstance(op, Update)]
    return {(paid_in_cents(table[op.key]) is None, paid_in_cents(op.row) is None) for op in updates}


PROMISES: dict[str, Callable[[Scenario], bool]] = {
    "re-key": _in_some_write(lambda write, _: bool(_moves(write))),
    "key swap": _in_some_write(lambda write, _: any((b, a) in _moves(write) for a, b in _moves(write))),
    "re-key onto a key freed in the same version": _in_some_write(
        lambda write, table: any(new in table and (new, old) not in _moves(write) for old, new in _moves(write))
    ),
    "re-insert in one version": _in_some_write(
        lambda write, _: bool(
            {op.key for op in write.operations if isinstance(op, Delete)}
            & {op.row.key for op in write.operations if isinstance(op, Insert)}
        )
    ),
    "row enters the filter": _in_some_write(lambda write, table: (True, False) in _status_turns(write, table)),
    "row leaves the filter": _in_some_write(lambda write, table: (False, True) in _status_turns(write, table)),
    "version without changes": _in_some_write(lambda write, _: not write.operations),
    "empty upstream": lambda scenario: not scenario.initial,
    "null in a composite key": lambda scenario: any(
        len(row.key) > 1 and None in row.key and row.key != (None,) * len(row.key) for row in scenario.initial
    ),
    "key of nulls only": lambda scenario: any(row.key == (None,) * len(row.key) for row in scenario.initial),
}


@pytest.mark.slow
def test_scenarios_reach_everything() -> None:
    """
    A property test is worth what its examples reach: each promised situation is in some of 250 scenarios.
    """
    missing = set(PROMISES)

    @settings(DETERMINISTIC, max_examples=250)
    @given(scenarios())
    def look(scenario: Scenario) -> None:
        missing.difference_update([name for name in missing if PROMISES[name](scenario)])

    look()
    assert not missing


@pytest.mark.slow
@pytest.mark.parametrize("type_", sorted(KEY_VALUES))
def test_key_values_sort(type_: str) -> None:
    """Values of every key type compare with one another, as Delta's type says they can."""

    @settings(DETERMINISTIC, max_examples=25)
    @given(st.lists(KEY_VALUES[type_], min_size=2, max_size=5))
    def compare(values: list[KeyValue]) -> None:
        up, down = KeyOrder([KeyColumn("k", type_)]), KeyOrder([KeyColumn("k", type_, descending=True)])
        keys: list[Key] = [(value,) for value in values]
        assert up.sort(keys) == down.sort(keys)[::-1]

    compare()
