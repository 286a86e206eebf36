"""What is folded: a grouping step of a query."""

from __future__ import annotations

from dataclasses import dataclass

EVERYTHING = "*"
"""The argument of ``count(*)``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """
    A call of an aggregate function.

    :param function: the function's name, in lower case and without qualifiers.
    :param arguments: the texts of its arguments, without DISTINCT; ``("*",)`` for ``count(*)``.
    :param argument_types: their types, as Spark's ``simpleString`` writes them; empty for ``count(*)``.
    :param result_type: the type of its result, likewise.
    :param output: the name of its result.
    :param is_distinct: whether it has DISTINCT.
    :param condition: the text of its FILTER; ``None`` if it has none.
    """

    function: str
    arguments: tuple[str, ...]
    argument_types: tuple[str, ...]
    result_type: str
    output: str
    is_distinct: bool = False
    condition: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupingStep:
    """
    The step of a query that groups rows.

    :param aggregates: its aggregates; none for SELECT DISTINCT.
    :param units: the names of the columns that identify a group; none if all rows are one group.
    :param has_having: whether it has HAVING.
    """

    aggregates: tuple[Aggregate, ...]
    units: tuple[str, ...]
    has_having: bool = False

    @property
    def is_global(self) -> bool:
        """Whether all rows are one group, which is also there if there are no rows."""
        return not self.units
