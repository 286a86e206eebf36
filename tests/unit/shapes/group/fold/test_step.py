"""A step without units is one group of all rows."""

from airflow_backfill_provider.shapes.group.fold.step import GroupingStep


def test_a_step_without_units_is_one_group() -> None:
    assert GroupingStep(aggregates=(), units=()).is_global
    assert not GroupingStep(aggregates=(), units=("g",)).is_global
