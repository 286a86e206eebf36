"""The comparison's own arithmetic: what a contestant gets, what counts, and the ratios."""

from __future__ import annotations

import time
from pathlib import Path
from typing import cast

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from bench.comparison.parts import parts_of
from bench.comparison.race import Run
from bench.comparison.report import standings
from bench.comparison.stage import Stage
from bench.comparison.workload import Workload
from bench.target import Target
from tests.unit.stand_in import Lake

pytestmark = pytest.mark.slow  # imports Spark

WORKLOAD = Workload("ordered", "updates", 1, rows=1000, epochs=4)
MANY_FEW_UNCHANGED = ((1, 1_000_000, 20), (1, 1_000_000, 2), (0, 1_000_000, 20))


@pytest.fixture
def stage(tmp_path):
    """A stage over a history of three commits."""
    lake = Lake(tmp_path)
    for number in range(3):
        lake.append([number])
    return Stage(cast("SparkSession", None), WORKLOAD, Path(tmp_path / "orders"), tmp_path / "run")


def test_a_replay_starts_with_the_first_commit_and_reads_one_after_the_other(stage):
    def rows():
        return DeltaTable(stage.upstream).to_pyarrow_table().column("order_id").to_pylist()

    assert rows() == [0]
    assert stage.commit()
    assert sorted(rows()) == [0, 1]
    assert stage.commit()
    assert not stage.commit()
    assert sorted(rows()) == [0, 1, 2]


def test_commits_are_not_counted(stage, monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    with stage.timed():
        stage.commit()
    # From 0 to 1 and from 2 to 3; the commit lay between.
    assert stage.seconds == 2


@pytest.mark.parametrize(
    ("keys", "bounds"),
    [("ordered", [f"{249:032}", f"{499:032}", f"{749:032}"]), ("random", ["40000000", "80000000", "c0000000"])],
)
def test_a_loop_gets_ranges_of_equal_size(keys, bounds):
    assert Workload(keys, "updates", 1, rows=1000, epochs=4).key_bounds() == bounds


def test_ratios_are_taken_inside_a_round():
    runs = [
        Run("w", name, number, seconds, ())
        for name, rounds in {"limit": (1.0, 10.0, 2.0), "ours": (2.0, 10.0, 6.0)}.items()
        for number, seconds in enumerate(rounds)
    ]
    limit, ours = standings(runs, "limit")
    assert (limit.ratio, limit.seconds) == (1, 2)
    assert (ours.ratio, ours.seconds, ours.fastest, ours.slowest) == (2, 6, 2, 10)


def test_a_target_is_an_upper_or_a_lower_bound():
    assert Target("", 1.3, "", "", float).met(1.3)
    assert not Target("", 1.3, "", "", float).met(1.31)
    assert Target("", 5, "", "", float, at_least=True).met(5)
    assert not Target("", 5, "", "", float, at_least=True).met(4.9)


def test_the_parts_of_a_time_are_told_apart():
    """T = 1.5 copies + 2 seconds for each epoch + 0.01 seconds for each changed row."""
    many, few, unchanged = (Workload("ordered", "updates", *rest) for rest in MANY_FEW_UNCHANGED)
    runs = {
        workload: [
            Run(workload.name, "CREATE TABLE AS SELECT", 0, 100.0, ()),
            Run(workload.name, "mine", 0, 150 + 2 * workload.epochs + 0.01 * changed, (*[1.0] * 20, 30.0, 0.1)),
        ]
        for workload, changed in ((many, 20_000), (few, 2_000), (unchanged, 0))
    }
    found = parts_of("mine", many, few, unchanged, runs)
    parts = (found.per_copy, found.per_epoch, found.per_changed_row, found.publication)
    assert parts == pytest.approx((1.5, 2, 0.01, 0.3))
