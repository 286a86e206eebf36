"""The classes of changes."""

from __future__ import annotations

from airflow_backfill_provider.core.job.definition_change import ChangeKind, FilterChange


def test_a_class_keeps_the_rows_or_writes_some_or_needs_a_rebuild():
    keeps = {kind for kind in ChangeKind if kind.keeps_rows}
    rebuilds = {kind for kind in ChangeKind if kind.needs_rebuild}
    assert keeps.isdisjoint(rebuilds)
    assert set(ChangeKind) - keeps - rebuilds == {ChangeKind.FILTER, ChangeKind.EXPRESSIONS}


def test_two_conditions_are_read_back_as_they_were_pinned():
    change = FilterChange(relation="o", before="a", after="b", types={"a": "boolean"})
    assert FilterChange.model_validate_json(change.model_dump_json()) == change
    assert "types" not in FilterChange(relation="o", before="a", after="b").model_dump()
