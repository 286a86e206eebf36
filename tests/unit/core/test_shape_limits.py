"""What a job cannot ask for because of the shape of its query."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.kinds import SHAPES
from airflow_backfill_provider.core.shape_limits import ShapeLimits

GROUPS = "SELECT country, count(*) AS n FROM upstream GROUP BY country"


def limits(strategy):
    return ShapeLimits(SHAPES.named("group"), GROUPS, strategy)


def test_a_view_of_groups_is_filled_whole_unless_its_strategy_reads_units():
    with pytest.raises(InvalidJobError, match="rate_limit: a view of shape group .* or use strategy arrangement"):
        limits("snapshot").require_speed({"rate_limit": 10})
    limits("arrangement").require_speed({"rate_limit": 10})
    with pytest.raises(InvalidJobError, match="parallelism: 2 task runs cannot write"):
        limits("snapshot").require_parallelism(2)
    with pytest.raises(InvalidJobError, match="strategy: cdc cannot fill a view of shape group; use auto, or"):
        limits("cdc").require(visibility="on_finish", parallelism=1, speed={})


def test_a_view_of_a_join_has_no_limits():
    join = ShapeLimits(SHAPES.named("join"), "SELECT a.id FROM a JOIN b ON a.id = b.id", "no_shuffle")
    join.require(visibility="every_epoch", parallelism=4, speed={"rate_limit": 10})


def test_rows_that_are_only_appended_are_added_to_groups_by_one_task_run():
    """Also to the one group of a query without units."""
    for query in (GROUPS, "SELECT count(*) AS n FROM upstream"):
        added = ShapeLimits(SHAPES.named("group"), query, "source")
        added.require(visibility="every_epoch", parallelism=1, speed={"rate_limit": 10})
        assert (added.usual_visibility, added.reads_at_once) == (None, False)
        with pytest.raises(InvalidJobError) as refused:
            added.require_parallelism(2)
        assert str(refused.value) == (
            "parallelism: 2 task runs cannot write a view of shape group together under strategy source; leave it out"
        )


def test_a_shape_that_does_not_add_rows_keeps_its_limits(monkeypatch):
    monkeypatch.setattr(type(SHAPES.named("group")), "adds_rows", False)
    with pytest.raises(InvalidJobError, match="rate_limit: a view of shape group is filled"):
        limits("source").require_speed({"rate_limit": 10})
