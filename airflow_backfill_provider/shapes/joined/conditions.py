"""The conditions of ON and WHERE: what AND connects, and the equalities of columns among them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp


@dataclass(frozen=True, slots=True)
class Equality:
    """
    An equality of two columns, as written.

    :param left: a column.
    :param right: another one.
    :param null_safe: whether two nulls are equal (``<=>``).
    """

    left: exp.Column
    right: exp.Column
    null_safe: bool


def conjuncts(condition: exp.Expr | None) -> list[exp.Expr]:
    """Return the conditions that AND connects, without parentheses; none if there is no condition."""
    if condition is None:
        return []
    condition = unwrapped(condition)
    if isinstance(condition, exp.And):
        return [*conjuncts(condition.this), *conjuncts(condition.expression)]
    return [condition]


def equalities(condition: exp.Expr | None) -> Iterator[Equality]:
    """Yield the equalities of columns among the conditions that AND connects."""
    for found in conjuncts(condition):
        if isinstance(found, exp.EQ | exp.NullSafeEQ):
            left, right = unwrapped(found.this), unwrapped(found.expression)
            if isinstance(left, exp.Column) and isinstance(right, exp.Column):
                yield Equality(left, right, isinstance(found, exp.NullSafeEQ))


def unwrapped(node: exp.Expr) -> exp.Expr:
    """Return an expression without parentheses around it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node
