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
