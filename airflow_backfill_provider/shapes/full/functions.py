"""The functions that a query may call whose view is computed whole."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.shapes.expressions import without_clause_words
from airflow_backfill_provider.shapes.full.reading import grains
from airflow_backfill_provider.shapes.full.refusals import refused, unsupported
from airflow_backfill_provider.shapes.functions import GENERATORS, NON_DETERMINISTIC, refuse_other_functions
from airflow_backfill_provider.shapes.group.functions import GROUP_FUNCTIONS
from airflow_backfill_provider.shapes.token_lists import added, type_at

_GRAINS = frozenset({TokenType.ROLLUP, TokenType.CUBE, TokenType.GROUPING_SETS})
_GROUPINGS = frozenset({"grouping", "grouping_id"})
_OF_WINDOWS = frozenset({"session_window", "unnest", "variant_explode", "variant_explode_outer", "window_time"})
PLAIN_GENERATORS = GENERATORS - _OF_WINDOWS - {"window"}
"""Functions that return several rows for one, and always the same ones."""

FULL_FUNCTIONS = GROUP_FUNCTIONS | _GROUPINGS | PLAIN_GENERATORS
"""All functions that a query may call whose view is computed whole."""


def refuse_functions(tokens: Sequence[Token], trees: Sequence[exp.Query]) -> None:
    """
    Refuse a query that calls other functions.

    :param trees: the query's trees, which say how many lists it groups by.
    :raises InvalidJobError: with the function's name, and what to do.
    """
    lists = [index for index in range(len(tokens)) if _begins_list(tokens, index)]
    if len(lists) != sum(map(grains, trees)):
        # Elsewhere, a word such as ROLLUP is the name of a function, and anybody can define one.
        raise unsupported("ROLLUP, CUBE or GROUPING SETS in another place than GROUP BY")
    plain = without_clause_words(tokens, trees)
    for index in lists:
        plain[index] = added(tokens[index], (TokenType.VAR, "all"))[0]
    refuse_other_functions(plain, FULL_FUNCTIONS, _other_function)


def _begins_list(tokens: Sequence[Token], index: int) -> bool:
    """Return whether a token is ROLLUP, CUBE or GROUPING SETS, before a list or after WITH."""
    before, after = type_at(tokens, index - 1), type_at(tokens, index + 1)
    is_list = after == TokenType.L_PAREN or before == TokenType.WITH
    return tokens[index].token_type in _GRAINS and is_list and before != TokenType.DOT


def _other_function(name: str) -> InvalidJobError:
    if name in NON_DETERMINISTIC:
        return refused(f"{name}, which is not deterministic", "remove it, or store its value in the upstream")
    return refused(f"{name}, whose result may depend on the order of rows", "write another function")
