"""The targets for the figures of all runs."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from typing import Any

from bench.comparison.by_hand import ByHand
from bench.comparison.contestants import FASTEST, HIDDEN_ARRANGEMENT, Copy, WarmEpochs
from bench.comparison.peers import ChangeFeedStream, KeyRangeLoop
from bench.comparison.workload import Workload
from bench.target import Target

_SNAPSHOT, _ARRANGEMENT = WarmEpochs(FASTEST).name, WarmEpochs(HIDDEN_ARRANGEMENT).name
_COPY, _BY_HAND = Copy().name, ByHand().name
_ORDERED, _RANDOM = (Workload(keys, "updates", 1, rows=0, epochs=0).name for keys in ("ordered", "random"))


def _times_slower(ours: str, other: str, workload: str) -> Callable[[Any], float]:
    """Return the median of the ratios to another contestant, round by round."""

    def figure(results: Any) -> float:
        runs = {
            (run["contestant"], run["round"]): run["seconds"] for run in results["runs"] if run["workload"] == workload
        }
        return _median(
            seconds / runs[other, number] for (contestant, number), seconds in runs.items() if contestant == ours
        )

    return figure


def _times_faster(ours: str, other: str, workload: str) -> Callable[[Any], float]:
    slower = _times_slower(ours, other, workload)
    return lambda results: 1 / slower(results)


def _part(name: str, keys: str) -> Callable[[Any], float]:
    """Return a part of the time of a snapshot."""
    return lambda found: _median(
        parts[name] for parts in found if (parts["contestant"], parts["keys"]) == (_SNAPSHOT, keys)
    )


def _median(figures: Iterable[float]) -> float:
    return statistics.median(figures)


def _of(keys: str, workload: str) -> tuple[Target, ...]:
    """Return the targets of a snapshot on one kind of keys."""
    what = f"snapshot, {keys} keys"
    return (
        Target(f"{what}, against the limit", 2, "times", "comparison", _times_slower(_SNAPSHOT, _COPY, workload)),
        Target(
            f"{what}, against the same commits by hand",
            1,
            "times",
            "comparison",
            _times_slower(_SNAPSHOT, _BY_HAND, workload),
        ),
        Target(f"{what}, in few epochs, against the limit", 1.25, "times", "parts", _part("few_epochs", keys)),
        Target(f"{what}, its publication", 0.4, "times", "parts", _part("publication", keys)),
    )


TARGETS = (
    *_of("ordered", _ORDERED),
    *_of("random", _RANDOM),
    *(
        Target(
            f"snapshot against {peer.name}",
            8,
            "times faster",
            "comparison",
            _times_faster(_SNAPSHOT, peer.name, _ORDERED),
            at_least=True,
        )
        for peer in (ChangeFeedStream(), KeyRangeLoop())
    ),
    Target(
        "arrangement, hidden, random keys, against the limit",
        5,
        "times",
        "comparison",
        _times_slower(_ARRANGEMENT, _COPY, _RANDOM),
    ),
)
