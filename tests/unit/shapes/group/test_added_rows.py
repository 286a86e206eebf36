"""Groups of rows that are only appended: what a job over them may ask for."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.visibility import Visibility
from airflow_backfill_provider.core.kinds import strategy_of
from airflow_backfill_provider.shapes.group.added_rows import not_added
from tests.builders import job_of

UPSTREAMS = [
    {"path": "/lake/clicks", "append_only": True},
    {"files": {"path": "/landing", "format": "json", "schema": "country STRING, amount INT"}},
    {"kafka": {"connection": "events", "topic": "clicks"}},
]
GROUPS = "SELECT country, count(*) AS n, sum(amount) AS total FROM upstream GROUP BY country"


def job(upstream=UPSTREAMS[0], query=GROUPS, **fields):
    return job_of("/lake", upstream=upstream, query=query, **fields)


@pytest.mark.parametrize("upstream", UPSTREAMS, ids=lambda upstream: next(iter(upstream)))
@pytest.mark.parametrize("strategy", ["auto", "source"])
def test_rows_are_added_in_each_epoch_at_any_speed(upstream, strategy):
    found = job(upstream, strategy=strategy, rate_limit=10, max_rows_per_second=5)
    assert strategy_of(found).name == "source"
    assert found.visibility is Visibility.EVERY_EPOCH
    assert job(upstream, "SELECT count(*) AS n FROM upstream", rate_limit=10).visibility is Visibility.EVERY_EPOCH


def test_groups_of_other_upstreams_wait_as_before():
    found = job({"path": "/lake/orders", "key": ["id"]})
    assert (strategy_of(found), found.visibility) == (None, Visibility.ON_FINISH)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (
            {"refresh": "auto"},
            "refresh: auto computes a view from all rows of its upstream, and rows of /lake/clicks may",
        ),
        ({"visibility": "on_finish"}, "visibility: rows that are only appended have no changes that could wait"),
        (
            {"parallelism": 2},
            "parallelism: 2 task runs cannot write a view of shape group together under strategy source",
        ),
        ({"strategy": "arrangement"}, None),
        (
            {"query": f"{GROUPS} HAVING count(*) > 1"},
            "a step with HAVING cannot be folded: .*; otherwise make a view of",
        ),
        (
            {"query": "SELECT * FROM upstream QUALIFY rank() OVER (PARTITION BY country ORDER BY amount) = 1"},
            "query: rows of /lake/clicks are only appended, so they are added to the state of their groups",
        ),
        ({"query": "SELECT country, median(amount) AS m FROM upstream GROUP BY country"}, "median.*cannot be folded"),
    ],
    ids=str,
)
def test_what_would_read_rows_again_is_refused_by_name(fields, why):
    """I6. A strategy that cannot read such an upstream is refused when this one is looked at."""
    if why is None:
        assert job(**fields).strategy == "arrangement"
        return
    with pytest.raises(InvalidJobError, match=why):
        job(**fields)


def test_a_refusal_says_what_to_do():
    assert str(not_added("x cannot be folded: y", "events: clicks")) == (
        "query: rows of events: clicks are only appended, so they are added to the state of their groups and not read "
        "again, but x cannot be folded: y; otherwise make a view of its rows first (SELECT … FROM upstream), and let "
        "this job read that view once it is finished"
    )
