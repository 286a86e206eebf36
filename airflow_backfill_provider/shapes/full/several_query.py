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

from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.epoch.unit_work import WHOLE
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.sql import RELATION, quote
from airflow_backfill_provider.core.scan.keys import KeyOrder
from airflow_backfill_provider.shapes.full.functions import refuse_functions
from airflow_backfill_provider.shapes.full.orders import refuse_order
from airflow_backfill_provider.shapes.full.query import has_star
from airflow_backfill_provider.shapes.full.reading import NamedReading, named_readings, refuse_moving_names, tree_of
from airflow_backfill_provider.shapes.functions import AGGREGATES, called_functions, identifier_clauses
from airflow_backfill_provider.shapes.queries import OF_SEVERAL_READINGS, SUBQUERY, Units, Upkeep
from airflow_backfill_provider.shapes.query_text import read_query
from airflow_backfill_provider.shapes.several import QueryOverSeveral, Tables

_WHOLE_VIEW = Upkeep(
    technique=WHOLE,
    reason="the job asks for refresh: full",
    reads="all rows of all upstreams, and no changes",
    writes="the whole view in one commit; if it has a change feed, only the rows that differ",
)


@dataclass(frozen=True, slots=True)
class FullQueryOverSeveral(QueryOverSeveral):
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

    plan_nodes: ClassVar[Collection[str]] = OF_SEVERAL_READINGS | {SUBQUERY}

    @property
    def relations(self) -> tuple[str, ...]:
        """The names of the upstreams that it reads; the one that leads is the first."""
        if self.tables:
            return tuple(name for name, _ in self.tables)
        found: dict[str, str] = {}
        for read in self.reads:
            found.setdefault(read.name.lower(), read.name)
        return tuple(found.values())

    @property
    def has_steps(self) -> bool:
        """Whether the query may rename columns in subqueries; taken for true, because it may have any form."""
        return True

    def resolved(self, tables: Tables) -> FullQueryOverSeveral:
        """Return the query with the columns of its tables."""
        return replace(self, tables=tuple((name, tuple(table.types)) for name, table in tables.items()))

    def used_columns(self) -> Mapping[str, Sequence[str]]:
        """Return the columns of each upstream that the query may use."""
        return {
            name: tuple(column for column in columns if self.has_star or column.lower() in self.words)
            for name, columns in self.tables
        }

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

    def inexact(self, columns: Sequence[str]) -> frozenset[str]:
        """Return all columns with floating-point numbers, if anything is computed from several rows."""
        return frozenset(columns) if self.aggregates else frozenset()

    def text_over(self, lead: str, others: Mapping[str, str]) -> str:
        """
        Return the query over other relations.

        :param lead: the relation to read as the upstream that leads.
        :param others: the relations to read as the other upstreams, by their names.
        """
        relations = {name.lower(): others.get(name, lead) for name, _ in self.tables}
        text = self.text
        for read in sorted(self.reads, key=lambda read: read.start, reverse=True):
            named = "" if read.is_named else f" AS {quote(read.name)}"
            text = f"{text[: read.start]}{quote(relations[read.name.lower()])}{named}{text[read.end :]}"
        return text

    def units(self, settings: JobSettings, *, by_key: bool) -> Units:
        """Return that the whole view is one unit."""
        del settings, by_key
        return Units(order=KeyOrder(()), outputs=(), hashed=None)

    def holds_distribution_key(self, settings: JobSettings) -> bool:
        """Return that no unit has a vnode of the upstream."""
        del settings
        return True


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
    return FullQueryOverSeveral(
        text=query.text,
        reads=reads,
        words=frozenset(
            {token.text.lower() for token in query.tokens} | {name.lower() for name in identifier_clauses(query.tokens)}
        ),
        has_star=has_star(tree),
        aggregates=any(called[-1] in AGGREGATES for _, called in called_functions(query.tokens)),
    )
