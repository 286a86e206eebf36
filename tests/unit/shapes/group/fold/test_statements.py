"""The SQL of an epoch. What it gives is tested on Spark, in ``test_folds.py``."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.shapes.group.fold.statements import changes, moved, of_rows, shown
from tests.unit.shapes.group.fold.calls import call, fold

COUNT, LEAST = call("count", "v", "int", "bigint", "n"), call("min", "v", "int", "int", "lo")


def test_rows_and_images_have_the_same_hidden_columns() -> None:
    found = fold(COUNT, LEAST)
    assert [item.rsplit(" AS ", 1)[1] for item in of_rows(found)] == [column.sql for column in found.columns]
    assert [item.rsplit(" AS ", 1)[1] for item in changes(found)] == [
        *("`__fold_rows`", "`__fold_count_0`"),
        *("`__fold_min_0_came`", "`__fold_min_0_gone`"),
    ]


def test_groups_are_found_by_their_values_with_nulls() -> None:
    """I1: with `=`, the state of a null group would be lost."""
    text = moved(fold(COUNT, units=("a", "b`c")), "delta_of", "base_of")
    assert "ON base.`a` <=> delta.`a` AND base.`b``c` <=> delta.`b``c`" in text


def test_one_group_of_all_rows_meets_its_state() -> None:
    assert "ON true" in moved(fold(COUNT, units=()), "d", "b")


def test_each_new_value_is_computed_from_the_last_epochs() -> None:
    """I2: so a repeated attempt writes the same; increments would count twice."""
    assert "coalesce(base.`__fold_count_0`, 0) + delta.`__fold_count_0` AS `__fold_count_0`" in moved(
        fold(COUNT), "d", "b"
    )


def test_the_view_has_units_results_and_hidden_columns() -> None:
    text = shown(fold(COUNT), "m")
    assert text == (
        "SELECT `g`, `__fold_count_0` AS `n`, `__fold_rows`, `__fold_count_0` FROM m "
        "WHERE NOT `__fold_is_lost` AND NOT (`__fold_rows` = 0)"
    )


@pytest.mark.parametrize("condition", [None, "a OR b"])
def test_a_filter_keeps_its_meaning_beside_the_sign(condition: str | None) -> None:
    """I1: images of one sign are taken, whatever operators the user's condition has."""
    (_, item) = changes(fold(call("count", "v", "int", "bigint", "n", condition=condition)))
    sign = "`__fold_sign`"
    both = [f"{sign} {sense} 0" + (f" AND ({condition})" if condition else "") for sense in "><"]
    assert item.startswith(f"count(v) FILTER (WHERE {both[0]}) - count(v) FILTER (WHERE {both[1]})")
