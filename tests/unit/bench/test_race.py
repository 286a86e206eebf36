"""How a race of views takes its times."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from airflow_backfill_provider.engine.spark_engine import SparkEngine
from bench import measuring
from bench.figures import COMPUTED, EPOCH, LARGE, Figure, of_computing
from bench.kept_view import KeptView
from bench.race import CHANGES, ROWS, SIZES, Race, report
from bench.target import Target

pytestmark = pytest.mark.slow  # imports Spark


@dataclass
class Steps:
    """In place of a view: writes down what was asked of it."""

    kind: str = "join"
    taken: list[str] = field(default_factory=list)

    def run_epochs(self, _engine):
        self.taken.append(EPOCH)
        return [1.0, 2.0]

    def compute(self, _spark):
        self.taken.append(COMPUTED)
        return 4.0


@pytest.fixture
def running():
    return Race(cast("SparkSession", None), cast("SparkEngine", None), Path(), Console(quiet=True))


def test_every_second_round_reverses_the_order(running):
    view = Steps()
    for number in (1, 2, 3):
        running.follow(cast("KeptView", view), LARGE, number)

    assert view.taken == [EPOCH, COMPUTED, COMPUTED, EPOCH, EPOCH, COMPUTED]


def test_the_epochs_of_a_round_count_together_and_the_first_round_does_not_count(running):
    for number in (0, 1):
        running.follow(cast("KeptView", Steps()), LARGE, number)

    assert [figure for figure in running.figures if figure.what in {EPOCH, COMPUTED}] == [
        Figure(EPOCH, LARGE, "join", 3.0),
        Figure(COMPUTED, LARGE, "join", 4.0),
    ]


def test_a_report_keeps_every_figure_in_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(measuring, "RESULTS", tmp_path)
    figures = [Figure(EPOCH, LARGE, "join", 2.0), Figure(COMPUTED, LARGE, "join", 4.0)]
    target = Target("an epoch", 0.6, "times", "joins", of_computing(LARGE, "join"))
    console = Console(record=True, width=120, quiet=True)

    report(console, "joins", figures, (target,), ())

    saved = json.loads((tmp_path / "joins.json").read_text())
    assert target.figure(saved) == 0.5


def test_the_smallest_upstream_changes_as_much_as_the_largest_one():
    small, medium, large = SIZES
    assert SIZES[large] == ROWS
    assert CHANGES[small] == CHANGES[large]
    assert CHANGES[medium] * 1000 == SIZES[medium]
