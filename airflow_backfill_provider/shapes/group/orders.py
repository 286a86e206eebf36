"""
Refuses results that depend on the order of rows that are equal in it.

Two runs over the same rows may meet equal rows in another order, and a verification would then find differences for
ever. So a function that tells such rows apart needs an order with the columns that identify a row: the upstream's key,
or after a grouping what it groups by.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot.tokenizer_core import TokenType

from airflow_backfill_provider.shapes.group.calls import Call
from airflow_backfill_provider.shapes.group.functions import (
    BY_EXTREME,
    COLLECTING,
    LISTING,
    MODE,
    ORDERED_WINDOWS,
    POSITIONAL,
)
from airflow_backfill_provider.shapes.group.refusals import refused
from airflow_backfill_provider.shapes.group.steps import Step
from airflow_backfill_provider.shapes.group.terms import Meaning, Term, column, meaning
from airflow_backfill_provider.shapes.token_lists import closing_of, split

Identity = tuple[frozenset[Meaning], ...]
"""What identifies a row: of each set, one expression is needed."""

_STRUCTS = frozenset({"named_struct", "struct"})


def require_orders(steps: Sequence[Step], key: Sequence[str]) -> None:
    """
    Refuse calls whose result depends on the order of rows.

    :param key: the upstream's key columns.
    :raises InvalidJobError: with the call, and what to write instead.
    """
    require_identified_orders(steps, tuple(frozenset({column(name)}) for name in key), key)


def require_identified_orders(steps: Sequence[Step], identity: Identity | None, key: Sequence[str]) -> None:
    """
    Refuse calls whose result depends on the order of rows.

    :param identity: what identifies a row that the first step reads; ``None`` if nothing does.
    :param key: the same for messages.
    :raises InvalidJobError: with the call, and what to write instead.
    """
    for step in steps:
        of_groups = identity if step.group is None else tuple(frozenset({found.meaning}) for found in step.group)
        for call in step.calls:
            _require_order(call, step, identity if call.over is None else of_groups, key)
        identity = _after(step, identity)


def _require_order(call: Call, step: Step, identity: Identity | None, key: Sequence[str]) -> None:
    name, over = call.name, call.over
    grouped = () if step.group is None else step.group
    if over is not None:
        _require_window_order(call, identity, key)
    elif name in COLLECTING and not call.is_sorted:
        raise refused(f"{name}, whose result depends on the order of rows", f"write sort_array({name}(…))")
    elif name in LISTING:
        is_by_value = bool(call.arguments) and call.arguments[0].meaning in {found.meaning for found in call.within}
        if not is_by_value and not _identifies((*grouped, *call.within), identity):
            raise refused(
                f"{name}, whose result depends on the order of rows",
                f"write {name}(x, …) WITHIN GROUP (ORDER BY x), or end the ORDER BY with the key {', '.join(key)}",
            )
    elif name in POSITIONAL:
        raise refused(
            f"{name}, whose result depends on the order of rows",
            f"write min(…) or max(…), or max_by(x, struct(y, {', '.join(key)}))",
        )
    if name in BY_EXTREME and not _identifies((*grouped, *_fields(call)), identity):
        raise refused(
            f"{name} by values that may be equal", f"write {name}(x, struct(y, {', '.join(key)})), which breaks ties"
        )
    if name == MODE and not (call.within or (call.arguments[1:] and call.arguments[1].meaning == ("true",))):
        raise refused("mode, which chooses any of the most frequent values", "write mode(x, true)")


def _require_window_order(call: Call, identity: Identity | None, key: Sequence[str]) -> None:
    over, name = call.over, call.name
    if over is None:
        return
    tells_apart = name in ORDERED_WINDOWS | POSITIONAL | LISTING or (name in COLLECTING and not call.is_sorted)
    if (tells_apart or over.counts_rows) and not _identifies((*over.partition, *over.order), identity):
        what = "a frame of ROWS" if over.counts_rows and not tells_apart else name
        raise refused(
            f"{what} OVER an order in which rows may be equal",
            f"end its ORDER BY with what identifies a row, such as {', '.join(key)}"
            + ("; or write rank(), which gives equal rows the same number" if name == "row_number" else ""),
        )


def _identifies(found: Iterable[Term], identity: Identity | None) -> bool:
    """Return whether some expressions together identify a row."""
    if identity is None:
        return False
    meanings = {one.meaning for one in found}
    return all(meanings & wanted for wanted in identity)


def _fields(call: Call) -> tuple[Term, ...]:
    """Return the expressions that the second argument of ``max_by`` consists of."""
    if len(call.arguments) < 2:  # noqa: PLR2004 - the value, and what it is chosen by
        return ()
    by = call.arguments[1]
    opens = by.tokens[0].text.lower() in _STRUCTS and len(by.tokens) > 2  # noqa: PLR2004 - struct, (, )
    if not opens or closing_of(by.tokens, 1) != len(by.tokens) - 1:
        return (by,)
    parts = split(list(by.tokens[2:-1]), TokenType.COMMA)
    return (by, *(Term(tuple(part), meaning(part, "")[-1:] if len(part) == 3 else meaning(part, "")) for part in parts))  # noqa: PLR2004 - relation.column


def _after(step: Step, identity: Identity | None) -> Identity | None:
    """Return what identifies a row that a step returns; ``None`` if that is unknown."""
    if step.is_distinct:
        return tuple(frozenset({column(item.name)}) for item in step.items)
    if step.group is not None:
        names = [step.outputs(found) for found in step.group]
        return tuple(frozenset(map(column, found)) for found in names) if all(names) else None
    if identity is None:
        return None
    passed = [
        frozenset(column(output) for name in wanted for output in step.outputs(Term((), name, name[0])))
        for wanted in identity
    ]
    return tuple(passed) if all(passed) else None
