"""
Checks and parses the query of a row-level view.

A query is row-level if each upstream row gives at most one row of the view, independently of the other rows, and always
the same one. So an epoch can apply a change by its key alone. The query is one ``SELECT … FROM upstream [WHERE …]``, or
a chain of such levels (:mod:`~airflow_backfill_provider.shapes.levels`). This module checks the syntax trees,
without Spark. Spark checks names and types when the job is created.

SQL is never generated from the trees. Spark runs the tokens that were checked, exactly as written, with blanks in place
of comments (:mod:`~airflow_backfill_provider.shapes.query_text`). Hidden key columns are inserted at token positions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.definition_change import DefinitionChange
from airflow_backfill_provider.core.job.keep import Keep
from airflow_backfill_provider.core.job.sql import RELATION, quote
from airflow_backfill_provider.shapes.columns import possible_columns
from airflow_backfill_provider.shapes.expressions import (
    CLAUSES,
    names_of,
    refuse_clauses,
    refuse_expressions,
    refuse_functions_without_parentheses,
    refuse_stars_in_expressions,
)
from airflow_backfill_provider.shapes.functions import (
    AGGREGATES,
    GENERATORS,
    ROW_FUNCTIONS,
    refuse_other_functions,
)
from airflow_backfill_provider.shapes.levels import Level, LevelRules, query_levels
from airflow_backfill_provider.shapes.queries import OF_ROWS, QueryLineage, ShapedQuery, Units
from airflow_backfill_provider.shapes.query_text import read_query
from airflow_backfill_provider.shapes.row.determined import expressions_without
from airflow_backfill_provider.shapes.row.difference import difference_of_rows
from airflow_backfill_provider.shapes.row.lineage import query_lineage

HIDDEN_KEY_PREFIX = "__key_"
"""The prefix of a hidden key column's name; it gets more underscores if the view already has such a name."""

_GROUPS = {
    "distinct": "DISTINCT",
    "group": "GROUP BY",
    "having": "HAVING",
    "qualify": "QUALIFY",
    "windows": "WINDOW",
}
"""The clauses with which a row of the view depends on several rows of the upstream."""


def unsupported(what: str) -> InvalidJobError:
    """Return the error for a construct that no row-level query may have."""
    return InvalidJobError(
        f"the query uses {what} but must be row-level: SELECT expressions FROM {RELATION} [WHERE condition], with "
        "deterministic functions of one row"
    )


_RULES = LevelRules(unsupported)


@dataclass(frozen=True, slots=True)
class RowQuery(ShapedQuery):
    """
    A row-level query.

    :param text: the checked tokens as the user wrote them, without comments and a closing semicolon.
    :param levels: the query's levels; the first one reads the upstream, each other one the level before it.
    :param words: names in the query that may be columns of the upstream, lower-cased; all used columns are among them.
    """

    text: str
    levels: tuple[Level, ...]
    words: frozenset[str]
    _selected_words: frozenset[str]

    plan_nodes: ClassVar[Collection[str]] = OF_ROWS

    @property
    def has_star(self) -> bool:
        """Whether the query selects ``*`` of the upstream, and so uses every column."""
        return self.levels[0].select.find(exp.Star) is not None

    def columns_of(self, available: Sequence[str]) -> tuple[str, ...]:
        """Return the upstream's columns that the query may use, in the upstream's order."""
        if self.has_star:
            return tuple(available)
        return tuple(column for column in available if column.lower() in self.words)

    @property
    def has_steps(self) -> bool:
        """Whether the query is a chain of levels."""
        return len(self.levels) > 1

    def require_names(self, available: Sequence[str]) -> None:
        """
        Refuse a name such as ``user``, which Spark reads as a function if no column has that name.

        :param available: the upstream's columns.
        :raises InvalidJobError: if such a function is not deterministic.
        """
        refuse_functions_without_parentheses(self.levels, available, unsupported)

    def require_named_columns(self, keep: Keep) -> None:
        """
        Refuse ``struct(*)`` and the like, which would see the version of a change.

        :raises InvalidJobError: with what to do.
        """

        def refuse(_: str) -> InvalidJobError:
            return InvalidJobError(
                f"query: with keep: {keep}, * cannot stand inside of an expression, such as struct(*); name the "
                "columns there"
            )

        refuse_stars_in_expressions(self.levels[0].select, refuse)

    def output_of_key(self, column: str) -> str | None:
        """
        Return the view's column that holds a key column unchanged.

        :returns: the column's name, or ``None`` if the query drops or changes the key column.
        """
        names = [column]
        for level in self.levels:
            names = level.passes_on(names)
        return names[0] if names else None

    def written_names(self, upstream_names: Collection[str]) -> frozenset[str]:
        """
        Return every name from the query's text that a column of the view may have, lower-cased.

        :param upstream_names: the names that a star may stand for.
        """
        return self._selected_words | {name.lower() for name in upstream_names if self.has_star}

    def hidden_keys(self, key: Sequence[str], upstream_names: Collection[str] = ()) -> dict[str, str]:
        """
        Return the hidden column for each key column that the query does not select.

        :param key: the upstream's key columns.
        :param upstream_names: names that a star may stand for.
        """
        taken = self.written_names(upstream_names)
        return {column: _hidden(column, taken) for column in key if self.output_of_key(column) is None}

    def key_outputs(self, key: Sequence[str], upstream_names: Collection[str] = ()) -> tuple[str, ...]:
        """Return the view's column for each key column, hidden or not; parameters as of :meth:`hidden_keys`."""
        hidden = self.hidden_keys(key, upstream_names)
        return tuple(self.output_of_key(column) or hidden[column] for column in key)

    def render(self, relation: str, key: Sequence[str], upstream_names: Collection[str] = ()) -> str:
        """
        Return the query over another relation, with the hidden key columns added.

        :param relation: name of the relation to read instead of ``upstream``; quoted here.
        :param key: the upstream's key columns.
        :param upstream_names: names that a star may stand for.
        """
        hidden = self.hidden_keys(key, upstream_names)
        edits = sorted(self._edits(relation, hidden), reverse=True)
        text = self.text
        for start, end, written in edits:
            text = text[:start] + written + text[end:]
        return text

    def units(self, settings: JobSettings, *, by_key: bool) -> Units:
        """Return the key columns, hidden or not, and the columns from which a row's vnode is computed."""
        names, order = settings.upstream.names, settings.key_order
        hashed = order.names if by_key else tuple(settings.definition.upstream.distribution_key)
        return Units(
            order=order,
            outputs=self.key_outputs(order.names, names),
            hashed=hashed,
            hashed_outputs=self.key_outputs(hashed, names),
        )

    def holds_distribution_key(self, settings: JobSettings) -> bool:
        """Return whether the view holds the distribution key, in hidden columns or others."""
        distribution_key = settings.definition.upstream.distribution_key
        held = {*settings.key_order.names, *filter(self.output_of_key, distribution_key)}
        return held.issuperset(distribution_key)

    def decided_by_key(self, wanted: Collection[str], key: Sequence[str], available: Collection[str]) -> dict[str, str]:
        """
        Return those of some columns of the view that the key decides, each with its SQL over the key columns.

        :param wanted: the columns of the view.
        :param available: the upstream's columns.
        """
        of_key = {name.lower() for name in key}
        # A name that is no column of the upstream may be that of another column of the query.
        names = {*map(str.lower, available), *self.levels[0].names} - of_key
        written = {} if self.has_steps else dict(expressions_without(self.text, self.levels[0], names))
        outputs = zip(self.key_outputs(key, available), key, strict=True)
        known = {**written, **{output.lower(): quote(column) for output, column in outputs}}
        return {column: known[column.lower()] for column in wanted if column.lower() in known}

    def decided_by_unit(self, wanted: Collection[str], key: Sequence[str], available: Sequence[str]) -> Collection[str]:
        """Return those of some columns of the view that the key decides."""
        return self.decided_by_key(wanted, key, available)

    def difference_to(self, other: ShapedQuery) -> DefinitionChange:
        """Return how another query of rows differs: by its condition, its columns, or in ways that only Spark sees."""
        after = check_query(other.text)
        return difference_of_rows((self.text, self.levels), (after.text, after.levels))

    def lineage(self, columns: Sequence[str], key: Sequence[str], upstream_names: Collection[str]) -> QueryLineage:
        """Return the origins of the view's columns, as far as the text shows them."""
        return query_lineage(self.levels, columns, self.hidden_keys(key, upstream_names))

    def _edits(self, relation: str, hidden: dict[str, str]) -> Iterator[tuple[int, int, str]]:
        """Yield the edits of the text: start, end, replacement."""
        for number, level in enumerate(self.levels):
            if level.reads is not None:
                start, end, is_named = level.reads
                yield start, end, quote(relation) + ("" if is_named else f" AS {quote(level.alias)}")
            if level.end_of_list is not None and (columns := self._added(number, hidden)):
                start = len(self.text[: level.end_of_list].rstrip())
                yield start, level.end_of_list, f"\n{columns} "

    def _added(self, number: int, hidden: dict[str, str]) -> str:
        """Return the text that adds the hidden key columns to a level's list of columns."""
        level = self.levels[number]
        if number and level.star_without is not None:
            return ""  # the star passes them on
        if number:
            return "".join(f", {quote(output)}" for output in hidden.values())
        read = [f"{quote(level.alias)}.{quote(column)} AS {quote(output)}" for column, output in hidden.items()]
        if not read:
            return ""
        return f"|> EXTEND {', '.join(read)}" if level.is_piped else f", {', '.join(read)}"


@lru_cache(maxsize=256)
def check_query(text: str) -> RowQuery:
    """
    Check that a query is row-level over ``upstream``.

    :raises InvalidJobError: with the construct that is not allowed, or the position of a syntax error.
    """
    query = read_query(text)
    levels = query_levels(query, _RULES)
    for level in levels:
        refuse_clauses(level.select, {**_GROUPS, **CLAUSES}, unsupported)
        refuse_expressions(level.select, unsupported)
        _refuse_groups(level.select)
    for level in levels[1:]:
        refuse_stars_in_expressions(level.select, unsupported)
    refuse_other_functions(query.tokens, ROW_FUNCTIONS, _other_function)
    innermost = levels[0]
    return RowQuery(
        text=query.text,
        levels=levels,
        words=possible_columns(innermost.tokens, innermost.select, innermost.alias),
        # Include texts: Spark names a column after the text if it is a plain text.
        _selected_words=frozenset(token.text.lower() for token in _selecting(query.tokens, levels)),
    )


def _selecting(tokens: Sequence[Token], levels: Sequence[Level]) -> Iterator[Token]:
    """Yield the words that may name a column of the view; in a chain of levels, these are all words."""
    end = levels[0].end_of_list if len(levels) == 1 else None
    return (token for token in tokens if end is None or token.end < end)


def _hidden(key: str, taken: Collection[str]) -> str:
    name = HIDDEN_KEY_PREFIX + key
    while name.lower() in taken:
        name = f"_{name}"
    return name


def _refuse_groups(select: exp.Select) -> None:
    """Refuse expressions that depend on several rows, or give several."""
    for node in select.walk():
        if isinstance(node, exp.Window | exp.WithinGroup):
            raise unsupported("window functions")
        if isinstance(node, exp.Any) and not isinstance(node.parent, exp.Predicate):
            raise unsupported("the aggregate any")
        if isinstance(node, exp.Func):
            _refuse_function(node)


def _refuse_function(function: exp.Func) -> None:
    for name in sorted(names_of(function)):
        if name in GENERATORS:
            raise unsupported(f"{name}, which returns several rows for one,")
        if name in AGGREGATES or isinstance(function, exp.AggFunc):
            raise unsupported(f"the aggregate {name}")


def _other_function(name: str) -> InvalidJobError:
    return InvalidJobError(
        f"the query calls {name}, which is not a deterministic function of one row; remove it from the query"
    )
