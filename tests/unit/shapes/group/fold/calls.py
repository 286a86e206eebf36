"""Aggregates for tests, with few words."""

from __future__ import annotations

from airflow_backfill_provider.shapes.group.fold.folding import Fold, fold_of
from airflow_backfill_provider.shapes.group.fold.reasons import NotFolded
from airflow_backfill_provider.shapes.group.fold.step import Aggregate, GroupingStep


def call(
    function: str,
    argument: str,
    argument_type: str,
    result_type: str,
    output: str = "r",
    *,
    is_distinct: bool = False,
    condition: str | None = None,
) -> Aggregate:
    """Return a call with one argument."""
    return Aggregate(
        function=function,
        arguments=(argument,),
        argument_types=() if argument == "*" else (argument_type,),
        result_type=result_type,
        output=output,
        is_distinct=is_distinct,
        condition=condition,
    )


def fold(*aggregates: Aggregate, units: tuple[str, ...] = ("g",), names: tuple[str, ...] = ("g", "v")) -> Fold:
    """Return the fold of a step that can be folded."""
    found = fold_of(GroupingStep(aggregates=aggregates, units=units), names)
    assert isinstance(found, Fold), str(found)
    return found


def not_folded(aggregate: Aggregate) -> NotFolded:
    """Return why a step with an aggregate is not folded."""
    found = fold_of(GroupingStep(aggregates=(aggregate,), units=("g",)), ("g", "v"))
    assert isinstance(found, NotFolded)
    return found
