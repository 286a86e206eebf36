"""
Refuses results that depend on the order of rows, if the view is computed whole.

In a chain of plain steps it is known what identifies the rows of each step, so an order is accepted that ends with it.
In other forms, such as joins, it is not known, so every call that needs an order is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.shapes.full.functions import PLAIN_GENERATORS
from airflow_backfill_provider.shapes.full.reading import grains
from airflow_backfill_provider.shapes.full.refusals import NO_VIEW, refused
from airflow_backfill_provider.shapes.functions import called_functions
from airflow_backfill_provider.shapes.group.functions import (
    BY_EXTREME,
    COLLECTING,
    LISTING,
    MODE,
    ORDERED_WINDOWS,
    POSITIONAL,
)
from airflow_backfill_provider.shapes.group.orders import require_orders
from airflow_backfill_provider.shapes.group.refusals import BY_GROUPS
from airflow_backfill_provider.shapes.group.steps import Step, step_of
from airflow_backfill_provider.shapes.levels import Level
from airflow_backfill_provider.shapes.token_lists import type_at

_NEED_AN_ORDER = BY_EXTREME | COLLECTING | LISTING | POSITIONAL | ORDERED_WINDOWS | {MODE}
_FRAME_STARTS = frozenset({"between", "current", "unbounded"})


def steps_of(levels: Sequence[Level]) -> tuple[Step, ...] | None:
    """Return the steps of a query if it is known what identifies the rows of each; otherwise ``None``."""
    for level in levels:
        called = {name[-1] for _, name in called_functions(level.tokens)}
        if level.select.args.get("laterals") or grains(level.select) or called & PLAIN_GENERATORS:
            return None  # one row gives several
    try:
        return tuple(map(step_of, levels))
    except InvalidJobError:
        return None


def require_known_orders(steps: Sequence[Step], key: Sequence[str]) -> None:
    """
    Refuse calls whose result depends on the order of rows, in steps whose rows are identified.

    :param key: the upstream's key columns.
    :raises InvalidJobError: with the call, and what to write instead.
    """
    try:
        require_orders(steps, key)
    except InvalidJobError as error:
        raise InvalidJobError(str(error).replace(BY_GROUPS, NO_VIEW)) from None


def refuse_order(tokens: Sequence[Token], key: Sequence[str]) -> None:
    """
    Refuse all calls whose result may depend on the order of rows.

    :param key: the upstream's key columns.
    :raises InvalidJobError: with the call, and what to write instead.
    """
    for _, called in called_functions(tokens):
        if called[-1] in _NEED_AN_ORDER:
            raise _unknown(f"{called[-1]}, whose result may depend on the order of rows", key)
    for index, token in enumerate(tokens):
        if token.token_type == TokenType.ROWS and _begins_frame(tokens, index):
            raise _unknown("a frame of ROWS over an order in which rows may be equal", key)


def _begins_frame(tokens: Sequence[Token], index: int) -> bool:
    following = tokens[index + 1].text.lower() if index + 1 < len(tokens) else ""
    return following in _FRAME_STARTS or type_at(tokens, index + 1) == TokenType.NUMBER


def _unknown(what: str, key: Sequence[str]) -> InvalidJobError:
    return refused(
        what,
        f"write it in a chain of plain SELECTs with an order that ends with {', '.join(key)}, without joins, unions "
        "and lists of ROLLUP; or write rank(), min(…) or max(…)",
    )
