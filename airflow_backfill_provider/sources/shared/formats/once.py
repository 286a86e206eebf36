"""An expression of Spark SQL that is computed once and used several times."""

from __future__ import annotations

from collections.abc import Callable


def once(value: str, name: str, use: Callable[[str], str]) -> str:
    """
    Return what a function makes of a value that is computed once for each row.

    Spark may compute an expression again wherever it is used. An element of an array has been computed.

    :param value: an expression, as text.
    :param name: the value's name in the expression that is made of it.
    :param use: returns an expression of the value.
    """
    return f"get(transform(array({value}), {name} -> {use(name)}), 0)"
