"""
Print all targets with the measured figure, and whether it meets the target: ``make bench ARGS=targets``.

The control plane is measured at once. The slow figures come from the files of earlier benchmarks in ``.bench``. If a
figure is missing, the table names the benchmark to run.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import control_plane, store
from bench.cdc import results as cdc
from bench.comparison import results as comparison
from bench.groups import results as groups
from bench.joins import results as joins
from bench.life import results as life
from bench.measuring import RESULTS
from bench.soak.report import FLAT
from bench.source import results as source
from bench.target import Target
from bench.warm import fixed_seconds

MEBIBYTE = 2**20


def main(console: Console) -> None:
    """Measure the quick figures, and print all targets."""
    control_plane.main(console)
    table = Table("", "target", "measured", "", title="targets")
    found = []
    for target in TARGETS:
        figure = _measured(target)
        table.add_row(*target.row(figure))
        found.append({"what": target.what, "bound": target.bound, "unit": target.unit, "measured": figure})
    console.print(table)
    path = RESULTS / "targets.json"
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    console.print(f"every figure: {path}")


def _measured(target: Target) -> float | None:
    try:
        results = json.loads((RESULTS / f"{target.results or target.benchmark}.json").read_text(encoding="utf-8"))
        return target.figure(results)
    except (FileNotFoundError, KeyError, statistics.StatisticsError):
        return None


def _median(figures: Iterable[float]) -> float:
    return statistics.median(figures)


def _growth(figure: str) -> Callable[[Any], float]:
    """Return the ratio of the largest upstream to the smallest one."""

    def measured(epochs: Any) -> float:
        medians = {
            name: _median(epoch[figure] for epoch in epochs if epoch["name"] == name)
            for name in {epoch["name"] for epoch in epochs}
        }
        return max(medians.values()) / medians["times_1"]

    return measured


def _refresh_ratio(refreshes: Any) -> float:
    return _median(refresh["epoch_seconds"] / refresh["merge_seconds"] for refresh in refreshes)


def _start_ratio(application: str) -> Callable[[Any], float]:
    """Return the ratio to the plain application."""

    def measured(starts: Any) -> float:
        ours, plain = (
            _median(start["to_first_commit"] for start in starts if start["name"] == name)
            for name in (application, "plain")
        )
        return ours / plain

    return measured


TARGETS = (
    Target(
        "epoch at 16 times the upstream, no_shuffle",
        1.1,
        "times",
        "growth",
        _growth("run_seconds"),
        results="growth_no_shuffle",
    ),
    Target(
        "epoch at 16 times the upstream, arrangement",
        1.1,
        "times",
        "growth",
        _growth("run_seconds"),
        results="growth_arrangement",
    ),
    Target("fixed cost of a warm epoch over the same rows appended by hand", 0.7, "s", "warm", fixed_seconds),
    Target(
        "cold application to its first commit, against a plain one", 0.4, "times", "cold_start", _start_ratio("epoch")
    ),
    Target("fresh-keeping epoch against a MERGE by hand", 0.6, "times", "freshness", _refresh_ratio),
    Target("epoch with nothing new", 100, "ms", "control_plane", lambda found: found["nothing_new_seconds"] * 1000),
    Target("sensor poke", 10, "ms", "control_plane", lambda found: found["sensor_poke_seconds"] * 1000),
    Target("trigger poll", 10, "ms", "control_plane", lambda found: found["trigger_poll_seconds"] * 1000),
    Target(
        "memory more after the polls",
        5,
        "MB",
        "control_plane",
        lambda found: found["trigger_polls_more_bytes"] / MEBIBYTE,
    ),
    Target("inject on 100,000 files", 2, "s", "control_plane", lambda found: found["injection_seconds"]),
    Target("its memory", 500, "MB", "control_plane", lambda found: found["injection_peak_bytes"] / MEBIBYTE),
    Target(
        "state commit, 32,768 vnodes", 200, "ms", "control_plane", lambda found: found["state_commit_seconds"] * 1000
    ),
    *comparison.TARGETS,
    *store.TARGETS,
    *cdc.TARGETS,
    *source.TARGETS,
    *groups.TARGETS,
    *joins.TARGETS,
    *life.TARGETS,
    *FLAT,
)
