"""A rebuild beside the view, on the command line."""

from __future__ import annotations

import json

import pytest

from tests.unit.cli.conftest import append, fails

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


@pytest.fixture
def growing(created):
    """A finished view, and a rebuild of it with another rate limit that has read nothing."""
    assert created("run", "--until-finished").exit_code == 0
    created.write(rate_limit=500, vnode_count=2)
    result = created("rebuild", "--keep-serving")
    assert result.exit_code == 0
    assert "a rebuild grows beside its view; run the job until it takes the view's place" in result.stdout
    return created


def status(job):
    return json.loads(job("status", "--json").stdout)


def test_an_unfinished_view_is_not_kept_in_service(created):
    fails(created("rebuild", "--keep-serving"), "is not finished", "rebuild without --keep-serving")


def test_epochs_of_both_run_in_turn_and_the_rebuild_takes_the_views_place(growing):
    append(growing.backfill.job.upstream.location, [5000])
    first = growing("run")
    assert first.exit_code == 0
    assert "epoch 5: 0 rows read, 1 changes applied" in first.stdout
    assert "rebuild, epoch 1: 500 rows read" in first.stdout
    found = status(growing)
    assert (found["finished"], found["lag_versions"], found["vnodes"]["total"]) == (True, 0, 4)
    assert found["rebuild"]["rows_read"] == 500
    assert "rebuild     in progress, 50" in growing("status").stdout
    last = growing("run", "--until-finished")
    assert last.exit_code == 0
    assert "the rebuild is finished, and has taken the place of the view" in last.stdout
    found = status(growing)
    assert (found["finished"], found["rebuild"], found["vnodes"]["total"]) == (True, None, 2)


def test_a_paused_rebuild_ends_the_command(growing):
    assert growing("pause").exit_code == 0
    result = growing("run", "--until-finished")
    assert result.exit_code == 0
    assert "the rebuild has nothing to do: paused" in result.stdout
    assert "paused, 0.0 %" in growing("status").stdout
    assert status(growing)["paused"] is False


def test_the_steering_names_what_it_changes(growing):
    assert "rate limit is 7 rows per epoch" in growing("throttle", "7").stdout
    assert "(as before)" in growing("throttle", "7").stdout
    assert status(growing)["rebuild"]["rate_limit"] == 7


def test_a_rebuild_is_given_up(growing, engine):
    engine.starts = 0
    result = growing("revert")
    assert "the rebuild is given up; its view stays as it is" in result.stdout
    assert engine.starts == 0
    assert status(growing)["rebuild"] is None
    fails(growing("revert"), "was never rebuilt")
