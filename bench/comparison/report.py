"""Report the comparison's results as ratios: a table, a JSON file with every figure, and a plot."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.comparison.race import Run
from bench.comparison.workload import Workload
from bench.measuring import RESULTS


@dataclass(frozen=True, slots=True)
class Standing:
    """
    One contestant on one workload, over all rounds.

    :param seconds: the median.
    :param fastest: the fastest round.
    :param slowest: the slowest round.
    :param ratio: the median of the ratios to the limit, round by round.
    """

    workload: str
    contestant: str
    seconds: float
    fastest: float
    slowest: float
    ratio: float


def standings(runs: Sequence[Run], limit: str) -> list[Standing]:
    """
    Sum up the rounds.

    :param limit: the contestant that the others are compared with, round by round.
    """
    limits = {(run.workload, run.round): run.seconds for run in runs if run.contestant == limit}
    found = []
    for workload, contestant in dict.fromkeys((run.workload, run.contestant) for run in runs):
        mine = [run for run in runs if (run.workload, run.contestant) == (workload, contestant)]
        seconds = [run.seconds for run in mine]
        found.append(
            Standing(
                workload,
                contestant,
                statistics.median(seconds),
                min(seconds),
                max(seconds),
                statistics.median(run.seconds / limits[workload, run.round] for run in mine),
            )
        )
    return found


def show(console: Console, workload: Workload, runs: Sequence[Run], limit: str) -> None:
    """Print the table of one workload."""
    runs = [run for run in runs if run.workload == workload.name]
    rounds = len({run.round for run in runs})
    table = Table(title=f"{workload.rows:,} rows, {workload.epochs} epochs, {workload.name}; {rounds} rounds")
    table.add_column("contestant")
    for heading in ("median s", "fastest", "slowest", "times the limit"):
        table.add_column(heading, justify="right")
    for standing in standings(runs, limit):
        figures = (standing.seconds, standing.fastest, standing.slowest)
        table.add_row(standing.contestant, *(f"{figure:,.1f}" for figure in figures), f"{standing.ratio:.2f}")
    console.print(table)


def write(workloads: Sequence[Workload], runs: Sequence[Run], limit: str) -> list[Path]:
    """Write every figure, and a plot for each workload, and return the path."""
    found = standings(runs, limit)
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / "comparison.json"
    path.write_text(json.dumps(_as_json(workloads, runs, found), indent=1) + "\n", encoding="utf-8")
    return [path, *plot(found)]


def _as_json(workloads: Sequence[Workload], runs: Sequence[Run], found: Sequence[Standing]) -> dict[str, Any]:
    return {
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()},
        "workloads": [asdict(workload) | {"name": workload.name} for workload in workloads],
        "standings": [asdict(standing) for standing in found],
        "runs": [asdict(run) for run in runs],
    }


def plot(found: Sequence[Standing]) -> list[Path]:
    """Draw for each workload the contestants' times as multiples of the limit: bars, with the spread of the rounds."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    paths = []
    for workload in dict.fromkeys(standing.workload for standing in found):
        mine = [standing for standing in found if standing.workload == workload][::-1]
        names = [standing.contestant for standing in mine]
        medians = [standing.seconds for standing in mine]
        spread = [
            [standing.seconds - standing.fastest for standing in mine],
            [standing.slowest - standing.seconds for standing in mine],
        ]
        figure, axes = plt.subplots(figsize=(8, 0.5 * len(mine) + 1.2), layout="constrained")
        bars = axes.barh(names, medians, xerr=spread, color="#4c78a8", ecolor="#555555", capsize=3)
        axes.bar_label(bars, [f"  {standing.ratio:.1f}×" for standing in mine], padding=6)
        axes.set_xlabel("seconds, median and spread of all rounds; × = times the plain copy")
        axes.set_title(workload)
        axes.margins(x=0.15)
        axes.spines[["top", "right"]].set_visible(False)
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"bench-{_slug(workload)}.svg"
        figure.savefig(path)
        plt.close(figure)
        paths.append(path)
    return paths


def _slug(text: str) -> str:
    return "-".join("".join(letter if letter.isalnum() or letter == "." else " " for letter in text).split())
