"""
Checks and parses a query of groups.

A query of groups is a chain of steps (:mod:`~airflow_backfill_provider.shapes.levels`). At least one of them groups,
and one set of expressions divides the rows of all that do: the query's units. A group that a change touches is computed
anew from its own rows, by the text that the user wrote.

SQL is never generated from the trees. What is added to the text, such as hidden columns, is inserted at positions of
tokens (:mod:`~airflow_backfill_provider.shapes.group.texts`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

from sqlglot import exp

from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.scan.columns import own_columns
from airflow_backfill_provider.core.scan.keys import KeyField, KeyOrder
from airflow_backfill_provider.shapes.columns import possible_columns
from airflow_backfill_provider.shapes.expressions import (
    CLAUSES,
    refuse_clauses,
    refuse_expressions,
    refuse_functions_without_parentheses,
    refuse_stars_in_expressions,
)
from airflow_backfill_provider.shapes.functions import refuse_other_functions
from airflow_backfill_provider.shapes.group.functions import GROUP_FUNCTIONS, other_function
from airflow_backfill_provider.shapes.group.grouping_query import GroupingQuery
from airflow_backfill_provider.shapes.group.orders import require_orders
from airflow_backfill_provider.shapes.group.refusals import refused, unsupported
from airflow_backfill_provider.shapes.group.row_units import GroupRowUnits
from airflow_backfill_provider.shapes.group.steps import (
    Step,
    aggregate_operator,
    refuse_grains,
    refuse_joins,
    require_divided,
    step_of,
)
from airflow_backfill_provider.shapes.group.terms import column
from airflow_backfill_provider.shapes.group.texts import query_text, rows_text, slice_text, unit_text
from airflow_backfill_provider.shapes.group.units import AddedColumn, Units, common_terms, first_grouping, units_of
from airflow_backfill_provider.shapes.levels import LevelRules, query_levels
from airflow_backfill_provider.shapes.query_text import read_query

_RULES = LevelRules(unsupported, {"aggregate": aggregate_operator})


@dataclass(frozen=True, slots=True)
class GroupQuery(GroupingQuery):
    """
    A query of groups.

    :param text: the checked tokens as the user wrote them, without comments and a closing semicolon.
    :param steps: the query's steps; the first one reads the upstream, each other one the step before it.
    :param words: all words of the query, lower-cased.
    :param column_words: those that may be columns of the upstream; all used columns are among them.
    :param state: the hidden columns that keep the state of a unit: name and SQL over the unit's rows.
    """

    text: str
    steps: tuple[Step, ...]
    words: frozenset[str]
    column_words: frozenset[str]
    state: tuple[tuple[str, str], ...] = ()

    def with_state(self, columns: Mapping[str, str]) -> Self:
        """Return the query with hidden columns that keep the state of a unit."""
        return replace(self, state=tuple(columns.items()))

    @property
    def has_steps(self) -> bool:
        """Whether the query is a chain of several steps."""
        return len(self.steps) > 1

    @property
    def has_star(self) -> bool:
        """Whether the view may depend on every column of the upstream, because of a star that no later step narrows."""
        select, later = self.steps[0].level.select, self.steps[1:]
        stars = [star for star in select.find_all(exp.Star) if not isinstance(star.parent, exp.Count)]
        are_plain = all(star.parent is select or star.parent in select.expressions for star in stars)
        is_narrowed = are_plain and any(step.level.star_without is None for step in later)
        return bool(stars) and not is_narrowed

    def columns_of(self, available: Sequence[str]) -> tuple[str, ...]:
        """Return the upstream's columns that the query may use, in the upstream's order."""
        if self.has_star:
            return tuple(available)
        return tuple(name for name in available if name.lower() in self.column_words)

    def old_columns(self, available: Sequence[str]) -> tuple[str, ...]:
        """Return the columns of which the writer needs the values before a change: those of its units and filters."""
        return self.columns_of(available)

    def unit_columns(self, available: Sequence[str]) -> tuple[str, ...]:
        """Return the upstream's columns that the units are divided by, if these are plain columns of it."""
        units = self.units_with(available)
        columns = {column(name): name for name in available}
        found = [columns.get(one.meaning) for one in units.terms]
        is_plain = units.first == 0 and None not in found
        return tuple(name for name in found if name is not None) if is_plain else ()

    def require_names(self, available: Sequence[str]) -> None:
        """
        Refuse names that Spark reads otherwise than this check.

        :param available: the upstream's columns.
        :raises InvalidJobError: with a function without parentheses, or with an alias that is also a column.
        """
        refuse_functions_without_parentheses((step.level for step in self.steps), available, unsupported)
        known = frozenset(name.lower() for name in available)
        for step in self.steps:
            if doubtful := sorted(step.aliases & known):
                raise refused(
                    f"GROUP BY {doubtful[0]}, which is a column and the alias of another expression",
                    "write the expression after GROUP BY, or choose another alias",
                )
            known = step.level.gives(known)

    def require_orders(self, key: Sequence[str]) -> None:
        """
        Refuse results that depend on the order of rows.

        :param key: the upstream's key columns.
        :raises InvalidJobError: with the call, and what to write instead.
        """
        require_orders(self.steps, key)

    def units_with(self, upstream_names: Collection[str]) -> Units:
        """
        Return the query's units.

        :param upstream_names: the names that a star may stand for.
        """
        return units_of(self.steps, self.text, self.words | {name.lower() for name in upstream_names})

    def render(self, relation: str, key: Sequence[str], upstream_names: Collection[str] = ()) -> str:
        """
        Return the query over another relation, with the hidden unit columns added.

        :param relation: name of the relation to read instead of ``upstream``; quoted here.
        :param key: the upstream's key columns; not used.
        :param upstream_names: the names that a star may stand for.
        """
        del key
        units = self.units_with(upstream_names)
        return query_text(self.text, self.steps, relation, self._added(units))

    def render_units(
        self, relation: str, names: Sequence[str], upstream_names: Collection[str], *, carried: str = ""
    ) -> str:
        """
        Return the query of the units of rows, one for each row that is grouped.

        :param relation: name of the relation to read instead of ``upstream``.
        :param names: the names of the unit columns.
        :param upstream_names: the names that a star may stand for.
        :param carried: the name of a column of the relation that is passed on beside them; empty for none.
        """
        return unit_text(self.text, self.steps, relation, self.units_with(upstream_names), names, carried=carried)

    def render_slice(self, relation: str, touched: str, names: Sequence[str], upstream_names: Collection[str]) -> str:
        """
        Return the query over the rows of some units, with the hidden unit columns added.

        :param relation: name of the relation to read instead of ``upstream``.
        :param touched: name of the relation with the units.
        :param names: the names of its columns.
        :param upstream_names: the names that a star may stand for.
        """
        units = self.units_with(upstream_names)
        with_state = replace(units, added=self._added(units))
        return slice_text(self.text, self.steps, relation, with_state, touched, names)

    def render_rows(self, relation: str, selected: str) -> str:
        """
        Return the query of the rows that the first grouping step groups.

        :param relation: name of the relation to read instead of ``upstream``.
        :param selected: the list of columns, over the relation that the step reads.
        """
        return rows_text(self.text, self.steps, first_grouping(self.steps), relation, selected)

    @property
    def has_row_units(self) -> bool:
        """Whether there are several units."""
        return not self.is_global

    def row_units(self, settings: JobSettings) -> GroupRowUnits:
        """Return how the unit of each row is found."""
        held = self.units(settings, by_key=False).order.fields if settings.view_columns else ()
        names = settings.own_columns.numbered("unit", len(held))
        order = KeyOrder(tuple(KeyField(name=name, type=unit.type) for name, unit in zip(names, held, strict=True)))
        upstream_names = settings.upstream.names
        # Longer than every name in the query, so that no step of it gives another column this name.
        carried = own_columns(self.words | upstream_names).named("row")
        return GroupRowUnits(self, self.text, order.names, upstream_names, order, carried)

    def _added(self, units: Units) -> tuple[AddedColumn, ...]:
        """Return all hidden columns: those of units, and then those of their state."""
        return (*units.added, *(AddedColumn(units.first, sql, name) for name, sql in self.state))


@lru_cache(maxsize=256)
def check_group_query(text: str) -> GroupQuery:
    """
    Check that a query is one of groups over ``upstream``.

    :raises InvalidJobError: with the construct that is not allowed and what to write instead, or with the position of a
        syntax error.
    """
    query = read_query(text)
    refuse_joins(query.tokens)
    refuse_grains(query.tokens)
    refuse_other_functions(query.tokens, GROUP_FUNCTIONS, other_function)
    levels = query_levels(query, _RULES)
    for level in levels:
        refuse_clauses(level.select, CLAUSES, unsupported)
        refuse_expressions(level.select, unsupported)
    for level in levels[1:]:
        refuse_stars_in_expressions(level.select, unsupported)
    steps = tuple(map(step_of, levels))
    require_divided(steps)
    common_terms(steps)
    found = GroupQuery(
        text=query.text,
        steps=steps,
        words=frozenset(token.text.lower() for token in query.tokens),
        # A star passes columns on that only later steps name.
        column_words=frozenset[str]().union(
            *(possible_columns(level.tokens, level.select, level.alias) for level in levels)
        ),
    )
    found.units_with(())
    return found
