"""How a job notices that the upstream's log is another one than it has read."""

from __future__ import annotations

import json

import pytest

from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.log.same_log import ends_before, written_at_another_time
from tests.builders import NOW, commit_file


@pytest.mark.parametrize("newest", [7, 8])
def test_a_log_that_has_the_version_is_accepted(newest):
    assert ends_before("/t", newest, 7) == ""


def test_a_log_that_ends_earlier_is_named_with_both_versions():
    assert "the log of /t ends with version 6, but the job has read up to version 7" in ends_before("/t", 6, 7)


@pytest.fixture
def log(tmp_path):
    """A log whose version 0 says when it was written, and whose version 1 does not."""
    for version, info in ((0, {"timestamp": int(NOW.timestamp() * 1000)}), (1, {})):
        file = commit_file(tmp_path, version)
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps({"commitInfo": info}, separators=(",", ":")), encoding="utf-8")
    return DeltaLog(str(tmp_path))


@pytest.mark.parametrize(("version", "known"), [(0, NOW.isoformat()), (0, None), (1, "2020-01-01"), (2, "2020-01-01")])
def test_a_version_written_at_the_known_time_or_at_an_unknown_one_is_accepted(log, version, known):
    """A commit that is gone does not say when it was written."""
    assert written_at_another_time(log, version, known) == ""


def test_a_version_written_at_another_time_is_named_with_both_times(log):
    found = written_at_another_time(log, 0, "2020-01-01T00:00:00+00:00")
    assert f"version 0 of {log.location} was written at {NOW.isoformat()}" in found
    assert "at 2020-01-01T00:00:00+00:00;" in found
