"""Variants of a test that `make test` leaves out: the same behaviour in one more shape."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def exhaustive(*values: Any, name: str | None = None) -> Any:
    """
    Return a variant of a parametrized test that only `make test-exhaustive` plays.

    :param values: the arguments.
    :param name: the variant's id, if pytest shall not make one.
    """
    return pytest.param(*values, id=name, marks=pytest.mark.exhaustive)


def mostly_exhaustive(values: Iterable[Any], quick: Collection[Any]) -> list[Any]:
    """Return variants of which `make test` plays some."""
    return [value if value in quick else exhaustive(value) for value in values]


def mostly_exhaustive_combinations(
    combinations: Iterable[tuple[Any, ...]], quick: Collection[tuple[Any, ...]]
) -> list[Any]:
    """Return combinations of several arguments of which `make test` plays some."""
    return [values if values in quick else exhaustive(*values) for values in combinations]
