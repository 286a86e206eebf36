"""Which queries may have which kind of refresh."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.kinds import shape_of
from airflow_backfill_provider.core.refresh import Refresh

ROW = "SELECT id FROM upstream"
GROUP = "SELECT status, count(*) AS n FROM upstream GROUP BY status"
ROLLUP = "SELECT status, amount, count(*) AS n FROM upstream GROUP BY ROLLUP (status, amount)"


@pytest.mark.parametrize(
    ("query", "refresh", "shape"),
    [
        (ROW, Refresh.INCREMENTAL, "row"),
        (GROUP, Refresh.INCREMENTAL, "group"),
        (GROUP, Refresh.AUTO, "group"),
        (ROW, Refresh.FULL, "full"),
        (GROUP, Refresh.FULL, "full"),
        (ROLLUP, Refresh.FULL, "full"),
    ],
)
def test_a_query_has_the_first_shape_that_can_refresh_as_asked(query, refresh, shape):
    assert shape_of(query, refresh).name == shape


@pytest.mark.parametrize(
    ("query", "refresh", "message"),
    [
        (ROW, Refresh.AUTO, r"refresh: auto chooses for views of groups and of several upstreams; leave it"),
        (ROLLUP, Refresh.AUTO, r"ROLLUP.*or keep the query and set refresh: full"),
        (ROLLUP, Refresh.INCREMENTAL, r"ROLLUP.*or keep the query and set refresh: full"),
        ("SELECT id, rand() AS r FROM upstream", Refresh.AUTO, r"rand"),
    ],
)
def test_a_query_that_cannot_is_refused_with_what_to_write(query, refresh, message):
    with pytest.raises(InvalidJobError, match=message):
        shape_of(query, refresh)
