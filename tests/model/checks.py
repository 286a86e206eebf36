"""How the model's tests run Hypothesis: the same examples every time, and counterexamples by search."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, TypeVar

from hypothesis import HealthCheck, Phase, find, settings

from tests.model.truth import InvariantError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import SearchStrategy

T = TypeVar("T")

DETERMINISTIC = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=75,
    suppress_health_check=[HealthCheck.too_slow],
)
"""For all tests of the model; a test that needs more examples says so."""


def find_violation(strategy: SearchStrategy[T], run: Callable[[T], object], *, tries: int = 3000) -> str:
    """
    Search an example that breaks an invariant, and return what broke.

    :raises hypothesis.errors.NoSuchExample: if there is none among so many.
    """
    broken: list[str] = []

    def breaks(example: T) -> bool:
        try:
            run(example)
        except InvariantError as error:
            broken.append(str(error))
            return True
        return False

    # Shrinking would cost more than the search, and the example is not read.
    search = settings(DETERMINISTIC, derandomize=False, max_examples=tries, phases=[Phase.generate])
    find(strategy, breaks, settings=search, random=Random(0))
    return broken[-1]
