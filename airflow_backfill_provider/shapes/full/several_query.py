"""
Checks and parses a query over several upstreams whose view is computed whole.

It may join and combine the tables in any form, and ask in WHERE what other tables have. Of calls that need an order of
rows it has none: it is not known what identifies the rows of a join.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

from sqlglot import exp

from airflow_backfill_provider.core.epoch.unit_work import WHOLE
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.sql import RELATION
from airflow_backfill_provider.shapes.full.functions import refuse_functions
from airflow_backfill_provider.shapes.full.orders import refuse_order
from airflow_backfill_provider.shapes.full.query import QueryOfWholeView, has_aggregates, has_star, words_of
from airflow_backfill_provider.shapes.full.reading import NamedReading, named_readings, refuse_moving_names, tree_of
from airflow_backfill_provider.shapes.full.refusals import refused
from airflow_backfill_provider.shapes.queries import OF_SEVERAL_READINGS, SUBQUERY, SUBQUERY_IN_VALUES, Upkeep
from airflow_backfill_provider.shapes.query_text import read_query
from airflow_backfill_provider.shapes.several import QueryOverSeveral, Tables

_WHOLE_VIEW = Upkeep(
    technique=WHOLE,
    reason="the job asks for refresh: full",
    reads="all rows of all upstreams, and no changes",
    writes="the whole view in one commit; if it has a change feed, only the rows that differ",
)


@dataclass(frozen=True, slots=True)
class FullQueryOverSeveral(QueryOfWholeView, QueryOverSeveral):
    """
    A query over several upstreams whose view is computed whole.

    :param text: the checked tokens as the user wrote them, without comments and a closing semicolon.
    :param reads: where it reads which of them.
    :param words: all words of the query, lower-cased; all used columns are among them, unless a star is.
    :param has_star: whether it may use columns that it does not name.
    :param aggregates: whether a value may be computed from several rows.
    :param tables: its tables; empty before it is resolved. The first one leads.
    """

    text: str
    reads: tuple[NamedReading, ...]
    words: frozenset[str]
    has_star: bool
    aggregates: bool
    tables: tuple[tuple[str, tuple[str, ...]], ...] = ()

    plan_nodes: ClassVar[Collection[str]] = OF_SEVERAL_READINGS | {SUBQUERY, SUBQUERY_IN_VALUES}

    @property
    def relations(self) -> tuple[str, ...]:
        """The names of the upstreams that it reads; the one that leads is the first."""
        if self.tables:
            return tuple(name for name, _ in self.tables)
        found: dict[str, str] = {}
        for read in self.reads:
            found.setdefault(read.name.lower(), read.name)
        return tuple(found.values())

    def resolved(self, tables: Tables) -> FullQueryOverSeveral:
        """Return the query with the columns of its tables."""
        return replace(self, tables=tuple((name, tuple(table.types)) for name, table in tables.items()))

    def used_columns(self) -> Mapping[str, Sequence[str]]:
        """Return the columns of each upstream that the query may use."""
        return {name: self.used(columns) for name, columns in self.tables}

    def images(self) -> Mapping[str, Sequence[str]]:
        """Return none: no change is read."""
        return {}

    def require_orders(self, key: Sequence[str]) -> None:
        """
        Refuse results that depend on the order of rows.

        :param key: the key columns of the upstream that leads.
        :raises InvalidJobError: with the call, and what to write instead.
        """
        refuse_order(read_query(self.text).tokens, key)

    def upkeep(self, *, created: bool) -> Upkeep:
        """Return that the whole view is computed."""
        del created
        return _WHOLE_VIEW

    def text_over(self, lead: str, others: Mapping[str, str]) -> str:
        """
        Return the query over other relations.

        :param lead: the relation to read as the upstream that leads.
        :param others: the relations to read as the other upstreams, by their names.
        """
        relations = {name.lower(): others.get(name, lead) for name, _ in self.tables}
        return self.text_with([(relations[read.name.lower()], read.name) for read in self.reads])


@lru_cache(maxsize=256)
def reads_several(text: str) -> bool:
    """Return whether a query reads several upstreams, none of which is called ``upstream``."""
    try:
        query = read_query(text)
        names = {read.name.lower() for read in named_readings(query, tree_of(query))}
    except InvalidJobError:
        return False
    return len(names) > 1 and RELATION not in names


@lru_cache(maxsize=256)
def check_full_query_over_several(text: str) -> FullQueryOverSeveral:
    """
    Check that a query over several upstreams always gives the same rows for the same rows of these.

    :raises InvalidJobError: with the construct that is not allowed and what to write instead, or with the position of a
        syntax error.
    """
    query = read_query(text)
    tree = tree_of(query)
    reads = named_readings(query, tree)
    refuse_functions(query.tokens, (tree,))
    refuse_moving_names(query.tokens)
    _refuse_subqueries_of_joins(tree)
    return FullQueryOverSeveral(
        text=query.text,
        reads=reads,
        words=words_of(query),
        has_star=has_star(tree),
        aggregates=has_aggregates(query),
    )


def _refuse_subqueries_of_joins(tree: exp.Query) -> None:
    """Refuse what Spark cannot run over relations of which it must not skip rows."""
    conditions = (join.args.get("on") for join in tree.find_all(exp.Join))
    if any(condition is not None and condition.find(exp.Query) for condition in conditions):
        raise refused("a subquery in ON", "join what it reads, too, or write it in WHERE")
