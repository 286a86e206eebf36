"""What the stars of a query stand for, as far as the definition of a job decides."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.stars import Star

FIELDS = {
    "name": "orders",
    "upstream": {"path": "/lake/orders", "key": ["id"]},
    "materialized_view": "/lake/view",
    "query": "SELECT * FROM upstream",
}


def test_a_star_stays_as_it_was_unless_it_is_told_to_follow():
    frozen, following = BackfillJob(**FIELDS), BackfillJob(**FIELDS, star="follow")
    assert (frozen.star, frozen.follows_stars) == (Star.FREEZE, False)
    assert following.follows_stars
    assert "star" not in frozen.definition()
    assert following.definition()["star"] == "follow"


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"query": "SELECT id FROM upstream"}, "the query has no star"),
        ({"keep": "history"}, r"a view that keeps former rows \(keep: history\)"),
        ({"cluster_by": ["id"]}, "Delta would no longer cluster"),
        ({"keep_arrangement": True, "strategy": "arrangement"}, "the arrangement that the job keeps"),
        (
            {"upstream": {"kafka": {"connection": "events", "topic": "orders"}}, "strategy": "source"},
            "an upstream of kind kafka",
        ),
    ],
)
def test_a_view_that_could_not_get_another_column_is_refused(fields, why):
    with pytest.raises(InvalidJobError, match=rf"star: {why}.*; leave star out, or set it to freeze"):
        BackfillJob(**{**FIELDS, **fields}, star="follow")
