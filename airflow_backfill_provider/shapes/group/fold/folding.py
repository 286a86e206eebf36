"""A grouping step becomes a fold: hidden columns, and the values of its aggregates from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from airflow_backfill_provider.shapes.group.fold.columns import StateColumn
from airflow_backfill_provider.shapes.group.fold.functions import Folded, folded
from airflow_backfill_provider.shapes.group.fold.reasons import HAVING, NotFolded
from airflow_backfill_provider.shapes.group.fold.state import State
from airflow_backfill_provider.shapes.group.fold.step import GroupingStep


@dataclass(frozen=True, slots=True)
class Fold:
    """
    A step that is folded.

    :param step: the step.
    :param rows: the hidden column of the number of rows.
    :param columns: all hidden columns, in the view's order.
    :param outputs: the step's aggregates by the names of their results.
    :param sign: the name of the images' column that holds 1 for an image that comes, and -1 for one that goes.
    :param is_lost: the name of the column that says whether a group must be read again.
    """

    step: GroupingStep
    rows: StateColumn
    columns: tuple[StateColumn, ...]
    outputs: Mapping[str, Folded] = field(hash=False)
    sign: str
    is_lost: str

    @property
    def rounded(self) -> frozenset[str]:
        """The results that Spark computes with floating-point numbers: averages of integers."""
        return frozenset(name for name, output in self.outputs.items() if output.is_rounded)

    @property
    def is_inexact(self) -> str:
        """The condition, over the hidden columns, for a group to be read again because a result is not exact."""
        conditions = dict.fromkeys(output.is_exact for output in self.outputs.values() if output.is_exact != "true")
        return f"NOT ({' AND '.join(conditions)})" if conditions else "false"

    @property
    def may_lose(self) -> bool:
        """Whether any group may have to be read again."""
        return self.is_inexact != "false" or any(column.is_lost != "false" for column in self.columns)

    @property
    def is_gone(self) -> str:
        """
        The condition, over the hidden columns, for a group to have no row in the view.

        A sum of 0 does not say so. If all rows are one group, it is always there.
        """
        return "false" if self.step.is_global else f"{self.rows.sql} = 0"

    @property
    def is_impossible(self) -> str:
        """
        The condition, over the hidden columns, for a state that no rows have.

        Then the view or the changes are not what they were, and nothing may be written.
        """
        counts = [column.sql for column in self.columns if column.counts_rows]
        return " OR ".join(f"{count} NOT BETWEEN 0 AND {self.rows.sql}" for count in counts)


def _sums(step: GroupingStep) -> frozenset[tuple[str, str | None]]:
    """Return the sums of a step: their arguments, and the texts of their FILTERs."""
    return frozenset(
        (aggregate.arguments[0], aggregate.condition)
        for aggregate in step.aggregates
        # One that overflows is an error, which the query itself raises, and never another number.
        if aggregate.function == "sum" and not aggregate.is_distinct and len(aggregate.arguments) == 1
    )


def fold_of(step: GroupingStep, names: Iterable[str]) -> Fold | NotFolded:
    """
    Return how a step is folded, or why it cannot be.

    :param names: all names of users' columns: of the upstream, of the relation that the step reads, and of the view
        without the hidden columns of this fold. The hidden columns are named by them, so they must be the same in every
        epoch.
    """
    if step.has_having:
        return HAVING
    state = State([*names, *step.units, *(aggregate.output for aggregate in step.aggregates)], _sums(step))
    outputs = {}
    for aggregate in step.aggregates:
        found = folded(aggregate, state)
        if isinstance(found, NotFolded):
            return found
        outputs[aggregate.output] = found
    return Fold(step, state.rows, state.columns, outputs, state.sign, state.is_lost)
