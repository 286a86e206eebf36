"""Schemes for views over several upstreams that look right and are not: random histories find each."""

from __future__ import annotations

import pytest

from tests.model.histories import play_histories
from tests.model.joins_mutants import HARMLESS, MUTANTS, Kind

pytestmark = pytest.mark.slow  # many histories

MOST = 300
"""So many histories find every mutant. Most are found by the first few."""


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(name: str) -> None:
    """Negative control for I1, I4, I6, I7: without the rule some history goes wrong."""
    mutant = MUTANTS[name]
    result = play_histories(mutant.kinds[:1], range(MOST), mutant.protocol)
    assert result.error is not None


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name, mutant in MUTANTS.items() for kind in mutant.kinds[1:]], ids=str
)
def test_a_mutant_is_caught_in_each_of_its_kinds(name: str, kind: Kind) -> None:
    """Negative control for I1, I4, I6, I7: the same under other strategies, and for other queries."""
    result = play_histories([kind], range(MOST), MUTANTS[name].protocol)
    assert result.error is not None


@pytest.mark.parametrize("name", HARMLESS)
def test_what_looks_like_a_mutant_may_be_right(name: str) -> None:
    """I1: what these rules are not for. So a test that wants them caught would be wrong."""
    result = play_histories(HARMLESS[name].kinds, range(15), HARMLESS[name].protocol)
    assert result.error is None, result.trace
