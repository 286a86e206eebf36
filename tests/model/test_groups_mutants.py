"""Schemes for views of groups that look right and are not: random histories find each. A few of them are right."""

from __future__ import annotations

import pytest

from tests.model.groups_mutants import HARMLESS, MUTANTS, Kind
from tests.model.histories import play_histories

pytestmark = pytest.mark.slow  # many histories

MOST = 300
"""So many histories find every mutant. Most are found by the first few."""

OF_VERSIONS = {
    "a repair is a commit of its own",
    "a handover in two commits",
    "a handover to an older view",
    "a handover to an unfinished view",
}
"""These leave the view right after each epoch, and show readers something else in between."""


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(name: str) -> None:
    """Negative control for I1, I7: without the rule some history goes wrong."""
    mutant = MUTANTS[name]
    result = play_histories(mutant.kinds[:1], range(MOST), mutant.protocol)
    assert result.error is not None
    assert result.error.startswith("I7" if name in OF_VERSIONS else ("I1", "I7"))


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name, mutant in MUTANTS.items() for kind in mutant.kinds[1:]], ids=str
)
def test_a_mutant_is_caught_in_each_of_its_kinds(name: str, kind: Kind) -> None:
    """Negative control for I1, I7: the same under other strategies, and for other queries."""
    result = play_histories([kind], range(MOST), MUTANTS[name].protocol)
    assert result.error is not None
    assert result.error.startswith(("I1", "I7"))


@pytest.mark.parametrize("name", HARMLESS)
def test_what_looks_like_a_mutant_may_be_right(name: str) -> None:
    """I1: what these rules are not for. So a test that wants them caught would be wrong."""
    result = play_histories(HARMLESS[name].kinds, range(30), HARMLESS[name].protocol)
    assert result.error is None, result.trace
