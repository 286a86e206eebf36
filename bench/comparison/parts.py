"""
Tell the parts of a backfill's time apart: T = a · CTAS + b · epochs + c · changed rows.

The same rows are backfilled in many epochs, in few, and in many without changes. Three times give the three parts: *a*,
the price per row against one ``CREATE TABLE AS SELECT``; *b*, the fixed seconds of an epoch; and *c*, the seconds of a
changed row, which the publication pays.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table

from bench.comparison.by_hand import ByHand
from bench.comparison.contestants import FASTEST, Contestant, Copy, WarmEpochs
from bench.comparison.main import CHOSEN_WORKLOADS, EPOCHS, ROUNDS, ROWS, is_chosen, warm_session
from bench.comparison.race import Run, race
from bench.comparison.report import show
from bench.comparison.workload import Workload
from bench.measuring import save_figures

FEW = 2
PER_MILLE = 1
LIMIT = Copy()
CONTESTANTS: tuple[Contestant, ...] = (LIMIT, ByHand(), WarmEpochs(FASTEST))


@dataclass(frozen=True, slots=True)
class Parts:
    """
    The parts of one contestant's time on one kind of keys.

    :param per_copy: *a*, the time for the rows, as a multiple of the copy's.
    :param per_epoch: *b*, seconds.
    :param per_changed_row: *c*, seconds.
    :param few_epochs: the time with few epochs, as a multiple of the copy's.
    :param publication: the longest step after the chunks, with many epochs, as a multiple of the copy's time.
    """

    keys: str
    contestant: str
    per_copy: float
    per_epoch: float
    per_changed_row: float
    few_epochs: float
    publication: float


def main(console: Console) -> None:
    """Measure all kinds of keys, print the parts, and save them."""
    spark = warm_session(console, CONTESTANTS)
    found: list[Parts] = []
    for keys in ("ordered", "random"):
        many = Workload(keys, "updates", PER_MILLE, rows=ROWS, epochs=EPOCHS)
        if not is_chosen(many.name, CHOSEN_WORKLOADS):
            continue
        few = Workload(keys, "updates", PER_MILLE, rows=ROWS, epochs=FEW)
        unchanged = Workload(keys, "updates", 0, rows=ROWS, epochs=EPOCHS)
        runs: dict[Workload, list[Run]] = {}
        for workload in (many, few, unchanged):
            runs[workload] = list(race(console, spark, workload, CONTESTANTS, ROUNDS))
            show(console, workload, runs[workload], LIMIT.name)
        found += [parts_of(each.name, many, few, unchanged, runs) for each in CONTESTANTS[1:]]
    spark.stop()
    _show(console, found)
    console.print(f"written: {save_figures('parts', [asdict(parts) for parts in found])}")


def parts_of(
    contestant: str, many: Workload, few: Workload, unchanged: Workload, runs: Mapping[Workload, Sequence[Run]]
) -> Parts:
    """
    Return the parts of one contestant's time, from the medians of three workloads.

    :param few: like ``many``, with fewer epochs.
    :param unchanged: like ``many``, without changes.
    """

    def seconds(workload: Workload, name: str) -> float:
        return statistics.median(run.seconds for run in runs[workload] if run.contestant == name)

    copy = statistics.median(run.seconds for found in runs.values() for run in found if run.contestant == LIMIT.name)
    times = {workload: seconds(workload, contestant) for workload in (many, few, unchanged)}
    per_changed_row = (times[many] - times[unchanged]) / (many.changed_rows * many.epochs)
    fewer_changes = many.changed_rows * many.epochs - few.changed_rows * few.epochs
    per_epoch = (times[many] - times[few] - per_changed_row * fewer_changes) / (many.epochs - few.epochs)
    published = statistics.median(
        max(run.steps[many.epochs :], default=0.0) for run in runs[many] if run.contestant == contestant
    )
    return Parts(
        many.keys,
        contestant,
        (times[unchanged] - per_epoch * unchanged.epochs) / copy,
        per_epoch,
        per_changed_row,
        times[few] / copy,
        published / copy,
    )


def _show(console: Console, found: Sequence[Parts]) -> None:
    table = Table(title=f"T = a · CTAS + b · epochs + c · changed rows; {ROWS:,} rows, {FEW} and {EPOCHS} epochs")
    for heading in ("keys", "contestant", "a", "b, s", "c, µs", "few epochs, times CTAS", "publication"):
        table.add_column(heading, justify="left" if heading in {"keys", "contestant"} else "right")
    for parts in found:
        table.add_row(
            parts.keys,
            parts.contestant,
            f"{parts.per_copy:.2f}",
            f"{parts.per_epoch:.2f}",
            f"{parts.per_changed_row * 1e6:.1f}",
            f"{parts.few_epochs:.2f}",
            f"{parts.publication:.2f}",
        )
    console.print(table)
