"""What the benchmark of a view's life is measured by."""

from __future__ import annotations

from bench.figures import COMPUTED_FIRST, EPOCH, FIRST_LOAD, LARGE
from bench.life.results import ADDED, ADOPTED, ASKED, CHANGED, FILTERED, HISTORY, LATEST, ROW, TARGETS


def test_every_target_is_about_what_the_benchmark_measures():
    measured = {
        ROW: (COMPUTED_FIRST, ADOPTED, ASKED),
        **dict.fromkeys((ADDED, FILTERED), (FIRST_LOAD, CHANGED)),
        **dict.fromkeys((LATEST, HISTORY), (EPOCH,)),
    }
    figures = [
        {"what": what, "size": LARGE, "kind": kind, "seconds": 1.0}
        for kind, whats in measured.items()
        for what in whats
    ]
    assert [target.figure({"figures": figures}) for target in TARGETS] == [1.0] * 5
