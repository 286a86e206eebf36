"""
Slices of random queries on DataFusion: the touched groups, computed anew, are those of the whole query (I1).

The campaign ``slices`` plays thousands of these; see ``docs/faults.md``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from faults import slices
from faults.campaign import WrongError, chance
from faults.slices import play

pytestmark = pytest.mark.slow  # many random histories


def test_touched_groups_computed_anew_are_those_of_the_whole_query(tmp_path: Path) -> None:
    assert sum(play(chance("slices", 2, case), tmp_path).checks for case in range(4)) > 15


def test_a_slice_that_misses_groups_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups with a null are not found by plain equality."""
    translated = slices._translated
    monkeypatch.setattr(slices, "_translated", lambda text: translated(text).replace("IS NOT DISTINCT FROM", "="))
    with pytest.raises(WrongError, match="missing"):
        [play(chance("slices", 2, case), tmp_path) for case in range(4)]
