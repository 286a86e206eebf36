"""
Groups over joins and unions: the second stage of a query.

The steps up to the first one that groups give rows, which the joins' trees say the affected ones of. From there on, a
query is one of groups (:mod:`~airflow_backfill_provider.shapes.group`): the affected rows as of the window's begin and
of its end touch groups, and these are computed anew or folded. The rows of the first stage are read by a text of its
own, which is cut from the user's before that step's list of groups.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.shapes.group.orders import Identity, require_identified_orders
from airflow_backfill_provider.shapes.group.refusals import BY_GROUPS
from airflow_backfill_provider.shapes.group.steps import Step, require_divided, step_of
from airflow_backfill_provider.shapes.group.terms import column
from airflow_backfill_provider.shapes.group.texts import query_text, slice_text
from airflow_backfill_provider.shapes.group.units import Units, common_terms, units_of
from airflow_backfill_provider.shapes.joined.parts import Join, Rows
from airflow_backfill_provider.shapes.joined.refusals import OVER_SEVERAL, refused
from airflow_backfill_provider.shapes.joined.scopes import Scope
from airflow_backfill_provider.shapes.joined.texts import before_step, relation_text


@dataclass(frozen=True, slots=True)
class Grouping:
    """
    The steps of a query that groups rows of joins or unions.

    :param steps: all steps; of a join, the first one is its own SELECT.
    """

    steps: tuple[Step, ...]

    @property
    def is_global(self) -> bool:
        """Whether all rows are one group, so that the view always has exactly one row."""
        return not common_terms(self.steps)

    def units(self, text: str, taken: Collection[str]) -> Units:
        """
        Return the expressions that divide rows into groups.

        :param text: the query's text.
        :param taken: the names in lower case that hidden columns must not have.
        """
        with over_several():
            return units_of(self.steps, text, taken)

    def text(self, text: str, units: Units) -> str:
        """Return the query with the hidden columns of its units."""
        return query_text(text, self.steps, "", units.added)

    def rows_text(self, text: str, rows: Rows, first: int, selected: str) -> str:
        """
        Return the query of the rows that are grouped.

        :param rows: the query's parts.
        :param first: the number of the first step that groups.
        :param selected: the list of columns, over the relation that this step reads.
        """
        step = self.steps[first]
        if step.level.relation is None:
            return f"{before_step(text, rows, first)} |> SELECT {selected}"
        return f"SELECT {selected} FROM {relation_text(text, rows, first, step.input_end)}"  # noqa: S608 - checked text

    def units_text(self, text: str, rows: Rows, units: Units, names: Sequence[str], carried: str = "") -> str:
        """
        Return the query of the units of the rows that are grouped.

        :param names: the names of the unit columns.
        :param carried: the name of a column that the step reads and that is passed on beside them; empty for none.
        """
        terms = zip(units.terms, names, strict=True)
        columns = [f"({found.text(text)}) AS {quote(name)}" for found, name in terms]
        passed_on = [quote(carried)] if carried else []
        return self.rows_text(text, rows, units.first, ", ".join((*columns, *passed_on)))

    def slice_text(self, text: str, units: Units, touched: str, names: Sequence[str]) -> str:
        """
        Return the query of some units.

        :param touched: name of the relation with the units.
        :param names: the names of its columns.
        """
        return slice_text(text, self.steps, "", units, touched, names)

    def require_orders(self, identity: Identity | None, key: Sequence[str]) -> None:
        """
        Refuse results that depend on the order of rows.

        :param identity: what identifies a row of the first stage; ``None`` if the query's text cannot name that.
        :param key: the same for messages.
        :raises InvalidJobError: with the call, and what to write instead.
        """
        with over_several():
            require_identified_orders(self.steps, identity, key)

    def require_names(self, scope: Scope | None, known: frozenset[str]) -> None:
        """
        Refuse a name after GROUP BY that is a column and the alias of another expression.

        :param scope: what a join's own SELECT sees; ``None`` for a union.
        :param known: the columns in lower case that the first step reads.
        :raises InvalidJobError: with the name.
        """
        for step in self.steps:
            for alias in sorted(step.aliases & known):
                if scope is None or not _is_the_column(step, alias, scope):
                    raise refused(
                        f"GROUP BY {alias}, which is a column and the alias of another expression",
                        "write the expression after GROUP BY, or choose another alias",
                    )
            known, scope = step.level.gives(known), None


def grouping_of(rows: Rows) -> Grouping | None:
    """
    Return the steps of a query that groups; ``None`` if each row depends on one row of the join or union.

    :raises InvalidJobError: if its groups cannot be kept up to date.
    """
    levels = (rows.base.level, *rows.levels) if isinstance(rows.base, Join) else rows.levels
    with over_several():
        steps = tuple(map(step_of, levels))
        require_divided(steps)
        if all(step.is_of_rows for step in steps):
            return None
        common_terms(steps)
    return Grouping(steps)


@contextmanager
def over_several() -> Iterator[None]:
    """Say of a refusal by groups what queries over several upstreams say."""
    try:
        yield
    except InvalidJobError as error:
        raise InvalidJobError(str(error).replace(BY_GROUPS, OVER_SEVERAL)) from None


def _is_the_column(step: Step, alias: str, scope: Scope) -> bool:
    """Return whether an alias is that of the plain column with the same name."""
    found = scope.find([alias])
    item = next(item for item in step.items if item.name.lower() == alias)
    if found is None:
        return False
    return item.meaning in {column(alias), (found.role.name.lower(), ".", alias)} and found.column == alias
