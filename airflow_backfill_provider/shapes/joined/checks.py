"""What a query over several relations may not have, as far as its text shows."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from airflow_backfill_provider.shapes.expressions import (
    CLAUSES,
    refuse_clauses,
    refuse_expressions,
    refuse_stars_in_expressions,
    without_clause_words,
)
from airflow_backfill_provider.shapes.functions import (
    AGGREGATES,
    WINDOW_FUNCTIONS,
    called_functions,
    refuse_other_functions,
)
from airflow_backfill_provider.shapes.group.functions import GROUP_FUNCTIONS, other_function
from airflow_backfill_provider.shapes.group.steps import refuse_grains
from airflow_backfill_provider.shapes.joined.conditions import equalities
from airflow_backfill_provider.shapes.joined.groups import over_several
from airflow_backfill_provider.shapes.joined.parts import Existence, Join, Joining, Rows, Source, Union
from airflow_backfill_provider.shapes.joined.refusals import no_equality, unsupported
from airflow_backfill_provider.shapes.levels import Level
from airflow_backfill_provider.shapes.query_text import QueryText

_CLAUSES = {argument: clause for argument, clause in CLAUSES.items() if argument != "joins"}
_GROUPS = {"group": "GROUP BY", "having": "HAVING", "qualify": "QUALIFY", "windows": "WINDOW", "distinct": "DISTINCT"}
_OF_BLOCK = "groups, windows or another clause in EXISTS or IN"
_GROUPED = "a grouped subquery in FROM"
_GROUPED_BRANCH = "groups in a branch of a union"


def refuse_constructs(query: QueryText, rows: Rows) -> None:
    """
    Refuse what no query over several relations may have.

    :param rows: the query's parts.
    :raises InvalidJobError: with the construct, and what to write instead.
    """
    selects = list(_selects(rows))
    with over_several():
        refuse_grains(query.tokens)
        refuse_other_functions(without_clause_words(query.tokens, selects), GROUP_FUNCTIONS, other_function)
    for join in rows.joins:
        for existence in join.existences:
            _refuse_block(existence)
    for select in selects:
        refuse_clauses(select, _CLAUSES, unsupported)
        refuse_expressions(select, unsupported)
    for level in rows.levels:
        refuse_stars_in_expressions(level.select, unsupported)
    for join in rows.joins:
        for source in join.all_sources:
            for step in source.steps:
                _refuse_groups(step, _GROUPED)
        _require_equalities(join)
    if isinstance(rows.base, Union):
        for branch in rows.base.branches:
            _refuse_branch(branch)


def _selects(rows: Rows) -> Iterator[exp.Select]:
    """Yield all trees of a query."""
    yield from (level.select for level in rows.levels)
    if isinstance(rows.base, Union):
        for branch in rows.base.branches:
            yield from _selects(branch)
    elif isinstance(rows.base, Join):
        yield rows.base.level.select
        yield from (existence.select for existence in rows.base.existences)
        yield from (step.select for source in rows.base.all_sources for step in source.steps)


def _refuse_branch(branch: Rows) -> None:
    if isinstance(branch.base, Join):
        _refuse_groups(branch.base.level, _GROUPED_BRANCH)
    for level in branch.levels:
        _refuse_groups(level, _GROUPED_BRANCH)
        refuse_stars_in_expressions(level.select, unsupported)


def _refuse_block(existence: Existence) -> None:
    clauses = (set(_GROUPS) | set(_CLAUSES)) - {"distinct", "kind"}
    if any(existence.select.args.get(argument) for argument in clauses) or _calls_groups(existence.tokens):
        raise unsupported(_OF_BLOCK)


def _refuse_groups(level: Level, what: str) -> None:
    if any(level.select.args.get(argument) for argument in _GROUPS) or _calls_groups(level.tokens):
        raise unsupported(what)


def _calls_groups(tokens: tuple[Token, ...]) -> bool:
    """Return whether tokens call an aggregate or a window function."""
    called = {name[-1] for _, name in called_functions(tokens)}
    return bool(called & (AGGREGATES | WINDOW_FUNCTIONS)) or any(token.token_type == TokenType.OVER for token in tokens)


def _require_equalities(join: Join) -> None:
    """Refuse joins that have no equality of columns, whoever's these are."""
    _require_equality(join.sources, join.level.select)
    for existence in join.existences:
        where = existence.select.args.get("where")
        if not existence.is_in and not _ties(existence.sources, where and where.this):
            raise no_equality(existence.sources[0].name, is_block=True)


def _require_equality(sources: tuple[Source, ...], select: exp.Select) -> None:
    where = select.args.get("where")
    shared = _ties(sources, where and where.this)
    for source in sources:
        is_tied = bool(source.using) or any(equalities(source.on))
        if source.how is Joining.INNER and not shared:
            raise unsupported("CROSS JOIN") if source.on is None else no_equality(source.name)
        if source.how not in {Joining.FIRST, Joining.INNER} and not is_tied:
            raise no_equality(source.name)


def _ties(sources: tuple[Source, ...], where: exp.Expr | None) -> bool:
    """Return whether inner joins or WHERE have an equality."""
    inner = [source for source in sources if source.how is Joining.INNER]
    return any(source.using or any(equalities(source.on)) for source in inner) or any(equalities(where))
