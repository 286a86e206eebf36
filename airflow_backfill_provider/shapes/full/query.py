"""
Checks and parses a query whose view is computed whole.

It may have any form over ``upstream`` that always gives the same rows for the same upstream. Functions, texts and
Spark's plan are checked as strictly as for the other shapes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from sqlglot import exp

from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.epoch.unit_work import WHOLE
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.sql import RELATION, quote
from airflow_backfill_provider.core.scan.keys import KeyOrder
from airflow_backfill_provider.shapes.expressions import (
    refuse_clauses,
    refuse_expressions,
    refuse_functions_without_parentheses,
)
from airflow_backfill_provider.shapes.full.functions import refuse_functions
from airflow_backfill_provider.shapes.full.orders import refuse_order, require_known_orders, steps_of
from airflow_backfill_provider.shapes.full.reading import (
    REFUSED_CLAUSES,
    Reading,
    parsed,
    readings,
    refuse_moving_names,
)
from airflow_backfill_provider.shapes.full.refusals import unsupported
from airflow_backfill_provider.shapes.functions import AGGREGATES, called_functions, identifier_clauses
from airflow_backfill_provider.shapes.group.steps import Step, aggregate_operator
from airflow_backfill_provider.shapes.levels import Level, LevelRules, query_levels
from airflow_backfill_provider.shapes.queries import OF_SEVERAL_READINGS, ShapedQuery, Units, Upkeep
from airflow_backfill_provider.shapes.query_text import QueryText, read_query

_RULES = LevelRules(unsupported, {"aggregate": aggregate_operator})

_WHOLE_VIEW = Upkeep(
    technique=WHOLE,
    reason="the job asks for refresh: full",
    reads="all rows of the upstream, and no changes",
    writes="the whole view in one commit; if it has a change feed, only the rows that differ",
)


@dataclass(frozen=True, slots=True)
class FullQuery(ShapedQuery):
    """
    A query whose view is computed whole.

    :param text: the checked tokens as the user wrote them, without comments and a closing semicolon.
    :param reads: where it reads the upstream.
    :param words: all words of the query, lower-cased; all used columns are among them, unless a star is.
    :param has_star: whether it may use columns that it does not name.
    :param aggregates: whether a value may be computed from several rows.
    :param levels: its steps, if it is a chain of them; otherwise nothing.
    :param steps: the same, if it is known what identifies the rows of each step; otherwise ``None``.
    """

    text: str
    reads: tuple[Reading, ...]
    words: frozenset[str]
    has_star: bool
    aggregates: bool
    levels: tuple[Level, ...]
    steps: tuple[Step, ...] | None

    plan_nodes: ClassVar[Collection[str]] = OF_SEVERAL_READINGS

    @property
    def has_steps(self) -> bool:
        """Whether the query may rename columns in subqueries; taken for true, because it may have any form."""
        return True

    def columns_of(self, available: Sequence[str]) -> tuple[str, ...]:
        """Return the upstream's columns that the query may use, in the upstream's order."""
        return tuple(name for name in available if self.has_star or name.lower() in self.words)

    def require_names(self, available: Sequence[str]) -> None:
        """
        Refuse a name that Spark reads as a function, because no column has it.

        :param available: the upstream's columns.
        """
        refuse_functions_without_parentheses(self.levels, available, unsupported)

    def require_orders(self, key: Sequence[str]) -> None:
        """
        Refuse results that depend on the order of rows.

        :param key: the upstream's key columns.
        :raises InvalidJobError: with the call, and what to write instead.
        """
        if self.steps is None:
            refuse_order(read_query(self.text).tokens, key)
        else:
            require_known_orders(self.steps, key)

    def upkeep(self, *, created: bool) -> Upkeep:
        """Return that the whole view is computed."""
        del created
        return _WHOLE_VIEW

    def inexact(self, columns: Sequence[str]) -> frozenset[str]:
        """Return all columns with floating-point numbers, if anything is computed from several rows."""
        return frozenset(columns) if self.aggregates else frozenset()

    def render(self, relation: str, key: Sequence[str], upstream_names: Collection[str] = ()) -> str:
        """
        Return the query over another relation.

        :param relation: name of the relation to read instead of ``upstream``; quoted here.
        :param key: the upstream's key columns; not used.
        :param upstream_names: the names that a star may stand for; not used.
        """
        del key, upstream_names
        text = self.text
        for read in sorted(self.reads, key=lambda read: read.start, reverse=True):
            named = "" if read.is_named else f" AS {quote(RELATION)}"
            text = f"{text[: read.start]}{quote(relation)}{named}{text[read.end :]}"
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
def check_full_query(text: str) -> FullQuery:
    """
    Check that a query over ``upstream`` always gives the same rows for the same upstream.

    :raises InvalidJobError: with the construct that is not allowed and what to write instead, or with the position of a
        syntax error.
    """
    query = read_query(text)
    levels = _levels_of(query)
    trees: tuple[exp.Query, ...]
    if levels is None:
        tree = parsed(query)
        trees, reads = (tree,), readings(query, tree)
    else:
        trees = tuple(level.select for level in levels)
        reads = tuple(Reading(*level.reads) for level in levels if level.reads is not None)
    refuse_functions(query.tokens, trees)
    refuse_moving_names(query.tokens)
    named = {name.lower() for name in identifier_clauses(query.tokens)}
    return FullQuery(
        text=query.text,
        reads=reads,
        words=frozenset({token.text.lower() for token in query.tokens} | named),
        has_star=any(map(has_star, trees)),
        aggregates=any(called[-1] in AGGREGATES for _, called in called_functions(query.tokens)),
        levels=levels or (),
        steps=None if levels is None else steps_of(levels),
    )


def _levels_of(query: QueryText) -> tuple[Level, ...] | None:
    """
    Return a query's steps; ``None`` if it is no chain of them.

    :raises InvalidJobError: if a step has what no query may have.
    """
    try:
        levels = query_levels(query, _RULES)
    except InvalidJobError:
        return None
    for level in levels:
        refuse_clauses(level.select, REFUSED_CLAUSES, unsupported)
        refuse_expressions(level.select, unsupported)
    return levels


def has_star(tree: exp.Query) -> bool:
    """Return whether a query may use columns that it does not name."""
    joins = any(join.args.get("method") == "NATURAL" for join in tree.find_all(exp.Join))
    stars = any(not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star))
    return joins or stars or tree.find(exp.Pivot) is not None
