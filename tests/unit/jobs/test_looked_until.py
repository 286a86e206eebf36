"""Up to which instant a view has everything of its roots, by what these have committed since."""

from __future__ import annotations

import datetime as dt
import shutil

import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.jobs.looked_until import looked_until
from airflow_backfill_provider.jobs.view_logs import ViewLogs
from tests.builders import committed_at
from tests.diamonds import Lake, minute

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


def until(lake, at):
    """Return the instant of the newest epoch, and whether a root ends it."""
    log = ViewLogs().of(lake.source("v"))
    found = looked_until(log, next(log.looked(minute(99))), minute(at))
    return found.instant, bool(found.lacks)


def test_a_view_is_complete_until_a_root_has_rows_that_it_lacks(tmp_path):
    """I4: while the root rests, the view holds nobody back, although its job has no epochs."""
    lake = Lake(tmp_path, "a")
    lake.commit("a", 0.5)
    lake.view("v", "a")
    assert until(lake, 50) == (minute(50), False)
    DeltaTable(f"{tmp_path}/a").optimize.compact()
    committed_at(f"{tmp_path}/a", 2, minute(10))
    lake.versions["a"] += 1
    assert until(lake, 50) == (minute(50), False), "a compaction changes no row"
    lake.commit("a", 20)
    lake.commit("a", 30)
    just_before = minute(20) - dt.timedelta(microseconds=1)
    assert until(lake, 50) == (just_before, True)
    assert until(lake, 19) == (minute(19), False)
    shutil.rmtree(tmp_path / "a")
    assert until(lake, 50) == (minute(50), False), "nobody knows what a root has that does not answer"
