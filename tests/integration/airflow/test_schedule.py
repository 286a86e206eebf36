"""Runs of a schedule on a real scheduler: catch-up, and Airflow's own backfill, go through history in order."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
from pathlib import Path

import pytest

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.state.backfill_reader import BackfillReader
from tests.integration.airflow.server import AIRFLOW, airflow_server
from tests.unit.stand_in import Lake

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(600)]

DAGS = Path(__file__).parent / "scheduled_dags"
HOUR = dt.timedelta(hours=1)


@pytest.mark.exhaustive
def test_runs_of_a_schedule_go_through_history_in_order(tmp_path: Path):
    """One test for both, because it starts Airflow's processes."""
    this_hour = dt.datetime.now(dt.UTC).replace(minute=0, second=0, microsecond=0)
    first_hour = this_hour - 4 * HOUR
    lake = Lake(tmp_path)
    for version in range(3):
        lake.append([version])
        backdate(tmp_path / "orders", version, first_hour + version * HOUR + HOUR / 2)
    lake.append([99])

    home = tmp_path / "airflow"
    home.mkdir()
    variables = {"ORDERS_LAKE": str(tmp_path), "ORDERS_START": first_hour.isoformat()}
    with airflow_server(home, DAGS, variables) as airflow:
        airflow.wait_until(lambda: len(barriers(tmp_path, "caught_up")) >= 3)
        create = [AIRFLOW, "backfill", "create", "--dag-id", "backfilled", "--max-active-runs", "3"]
        window = ["--from-date", first_hour.isoformat(), "--to-date", (first_hour + 2 * HOUR).isoformat()]
        # The other DAG may not be parsed yet, or SQLite be locked, on a machine that is busy.
        airflow.wait_until(
            lambda: (
                subprocess.run([*create, *window], env=airflow.environment, capture_output=True, check=False).returncode
                == 0
            ),
            seconds=120,
        )
        airflow.wait_until(lambda: len(commits(tmp_path, "backfilled")) >= 3)
        airflow.wait_until(lambda: len(commits(tmp_path, "caught_up")) >= 3, seconds=60)

    for name in ("caught_up", "backfilled"):
        pinned = barriers(tmp_path, name)[:3]
        assert [(b.upstream.from_offset.number, b.upstream.to_offset.number) for b in pinned] == [
            (-1, 0),
            (0, 1),
            (1, 2),
        ]
        runs = [str(barrier.injected_by.run_id) for barrier in pinned]
        assert runs == sorted(runs)
        assert {run.partition("__")[0] for run in runs} == {"scheduled" if name == "caught_up" else "backfill"}


def backdate(table: Path, version: int, instant: dt.datetime) -> None:
    """Make a version of a table look as if it was committed at an instant."""
    file = table / "_delta_log" / f"{version:020d}.json"
    os.utime(file, (instant.timestamp(), instant.timestamp()))


def reader(folder: Path, name: str) -> BackfillReader:
    return BackfillReader(str(folder / "_backfill" / name))


def barriers(folder: Path, name: str) -> list[Barrier]:
    store = reader(folder, name)
    return store.barriers() if store.created() else []


def commits(folder: Path, name: str) -> list[object]:
    store = reader(folder, name)
    return list(store.commits()) if store.created() else []
