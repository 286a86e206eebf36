"""The classes of changes."""

from __future__ import annotations

from airflow_backfill_provider.core.job.definition_change import ChangeKind, ColumnsChange, FilterChange


def test_a_class_keeps_the_rows_or_writes_some_or_needs_a_rebuild():
    keeps = {kind for kind in ChangeKind if kind.keeps_rows}
    rebuilds = {kind for kind in ChangeKind if kind.needs_rebuild}
    assert keeps.isdisjoint(rebuilds)
    columns = {kind for kind in ChangeKind if kind.changes_columns}
    assert set(ChangeKind) - keeps - rebuilds - columns == {ChangeKind.FILTER, ChangeKind.EXPRESSIONS}
    assert columns.isdisjoint(keeps | rebuilds)


def test_two_conditions_are_read_back_as_they_were_pinned():
    change = FilterChange(relation="o", before="a", after="b", types={"a": "boolean"})
    assert FilterChange.model_validate_json(change.model_dump_json()) == change
    assert "types" not in FilterChange(relation="o", before="a", after="b").model_dump()


def test_columns_come_go_and_get_another_type():
    before = {"id": "long", "name": "string", "price": "integer", "tags": '{"type": "array"}'}
    after = {"id": "long", "price": "double", "tags": '{"type": "map"}', "stock": "long"}
    change = ColumnsChange.between(before, after)
    assert change is not None
    assert (change.added, change.dropped, change.reordered) == (("stock",), ("name",), False)
    assert str(change) == (
        "added: stock; dropped: name; another type: price from integer to double, tags from array to map"
    )
    assert ColumnsChange.model_validate_json(change.model_dump_json()) == change


def test_an_order_is_that_of_the_columns_that_stay():
    """A name that is written in other letters is another column, as Delta writes it."""
    assert ColumnsChange.between({"a": "long", "b": "long"}, {"a": "long", "b": "long"}) is None
    assert str(ColumnsChange.between({"a": "long", "b": "long"}, {"b": "long", "a": "long"})) == "another order"
    assert str(ColumnsChange.between({"a": "long"}, {"A": "long"})) == "added: A; dropped: a"
